"""Secrets planted everywhere a log can hold one are nowhere in what is kept or shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from data.store import Store
from ingest.imports import import_paths
from tests.command import run
from tests.logs import decode, stats

CANARY = "Qm7canaryX9v"
SECRETS = {
    "openai": f"sk-{CANARY}0001",
    "project": f"sk-proj-{CANARY}-0002",
    "hub": f"hf_{CANARY}0003",
    "github": f"ghp_{CANARY}00000004",
    "github_pat": f"github_pat_{CANARY}000005",
    "gitlab": f"glpat-{CANARY}00000006",
    "slack": f"xoxb-{CANARY}-0007",
    "google": f"AIza{CANARY}00000000008",
    "nvidia": f"nvapi-{CANARY}0009",
    "jwt": f"eyJ{CANARY}0.eyJ{CANARY}1.sig{CANARY}",
    "plain": f"{CANARY}-0011",
}
# Argument, environment, URL, header and request forms: more than twenty shapes of a secret.
_SGLANG_ARGS = ", ".join(
    [
        f"'api_key': '{SECRETS['openai']}'",
        f"'admin_api_key': '{SECRETS['plain']}'",
        f"'ssl_keyfile_password': '{CANARY}'",
        f"'watermark_key': '{CANARY}'",
        f"'tool_server': 'http://user:{CANARY}@tools:80/x'",
        f"'model_loader_extra_config': '{{\"hf_token\": \"{SECRETS['hub']}\"}}'",
        f"'hicache_storage_backend_extra_config': "
        f'\'{{"a": {{"secret_access_key": "{CANARY}"}}}}\'',
        f"'otlp_traces_endpoint': 'https://t.example/v1?token={CANARY}'",
        f"'custom': ['--password', '{SECRETS['slack']}']",
    ]
)
_VLLM_ARGS = ", ".join(
    [
        f"'api_key': ['{CANARY}', '{SECRETS['project']}']",
        f"'hf_token': '{CANARY}'",
        f"'kv_transfer_config': {{'credentials': {{'user': '{CANARY}'}}}}",
        f"'headers': {{'Authorization': 'Bearer {CANARY}'}}",
        f"'model_loader_extra_config': {{'url': 's3://{CANARY}:{CANARY}@bucket/m'}}",
    ]
)
_ENV = [f"{name.upper()}_TOKEN={value}" for name, value in SECRETS.items()]
_URLS = [
    f"GET https://host/path?api_key={CANARY}&n=1",
    f"pulling https://oauth2:{CANARY}@git.example/repo",
    f"PUT https://b.s3.example/o?X-Amz-Signature={CANARY}&X-Amz-Credential={CANARY}",
]
SGLANG = [
    f"[2026-05-04 10:00:00] server_args={{'model_path': 'org/m', 'tp_size': 1, {_SGLANG_ARGS}}}",
    *(f"[2026-05-04 10:00:00] {line}" for line in (*_ENV, *_URLS)),
    "[2026-05-04 10:00:01] The server is fired up and ready to roll!",
    decode("10:00:02"),
    f"{decode('10:00:03')}, api_key: {CANARY}",
    f"[2026-05-04 10:00:03] Decode batch v9 token={CANARY}",
    f"[2026-05-04 10:00:04] Finish: obj=GenerateReqInput(rid='{SECRETS['openai']}', text='my key "
    f"is {CANARY}', sampling_params={{'max_new_tokens': 5}}), out={{'text': '{CANARY}', "
    f"'meta_info': {{'id': '{SECRETS['openai']}', 'prompt_tokens': 3, 'completion_tokens': 5, "
    f"'finish_reason': {{'type': 'stop', 'matched': '{CANARY}'}}, 'e2e_latency': 0.5}}}}",
    f'[2026-05-04 10:00:04] INFO:     1.2.3.4:5 - "GET /v1?api_key={CANARY} HTTP/1.1" 200 OK',
    "[2026-05-04 10:00:05] Scheduler hit an exception: Traceback (most recent call last):",
    f'  File "/opt/a.py", line 3, in f  # password="{CANARY}"',
    f"ValueError: login failed: api_key={CANARY} Authorization: Bearer {CANARY}",
]
VLLM = [
    "(APIServer pid=7) INFO 05-04 10:00:00 [u.py:2] vLLM server version 0.33.0, serving model m",
    f"(APIServer pid=7) INFO 05-04 10:00:00 [utils.py:3] non-default args: {{{_VLLM_ARGS}}}",
    *(f"(APIServer pid=7) INFO 05-04 10:00:01 [e.py:9] {line}" for line in (*_ENV, *_URLS)),
    stats("05-04 10:00:10", 50, 2),
    f"(APIServer pid=7) INFO 05-04 10:00:11 [m.py:1] KV Transfer metrics: token={CANARY}, n=1",
    f"(APIServer pid=7) INFO 05-04 10:00:11 [l.py:4] Received request {SECRETS['hub']}: prompt: "
    f"'{CANARY}', params: SamplingParams(n=1, max_tokens=5), lora_request: None.",
    "(APIServer pid=7) ERROR 05-04 10:00:12 [core.py:5] EngineCore encountered a fatal error.",
    f"(APIServer pid=7) ERROR 05-04 10:00:12 [core.py:5] RuntimeError: {SECRETS['github']}",
    f"(APIServer pid=7) INFO 05-04 10:00:12 [l.py:4] Engine 000: Something new {SECRETS['jwt']}",
]


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """One log of each engine with every secret in it."""
    paths = [tmp_path / "sglang.log", tmp_path / "vllm.log"]
    for path, rows in zip(paths, (SGLANG, VLLM), strict=True):
        path.write_text("".join(f"{row}\n" for row in rows), "utf-8")
        assert path.read_text("utf-8").count(CANARY) > 20
    return paths


def test_no_secret_is_in_the_store_its_log_or_any_export(logs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        import_paths(store, [str(log) for log in logs])
        for file in tmp_path.glob("s.duckdb*"):  # the write-ahead log as well, while it is there
            assert CANARY.encode() not in file.read_bytes(), file
        with store.cursor() as con:
            tables = con.execute(
                "SELECT table_name FROM duckdb_tables() UNION ALL SELECT 'samples'"
            ).fetchall()
            counted = {}
            for (table,) in tables:
                rows = con.execute(f'SELECT * FROM "{table}"').fetchall()
                assert CANARY not in repr(rows), table
                counted[table] = len(rows)
    for table in ("samples", "events", "requests", "run_facts", "ingest_log", "checkpoints"):
        assert counted[table] > 0, table
    assert CANARY.encode() not in path.read_bytes()
    for what in ("runs", "samples", "events"):
        done = run("export", what, "--format", "csv", "--store", path)
        assert done.returncode == 0, done.stderr
        assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_no_secret_is_printed_by_parse(logs: list[Path], form: str) -> None:
    for log in logs:
        done = run("parse", log, "--format", form)
        assert done.returncode == 0
        assert CANARY not in done.stdout + done.stderr
        assert len(done.stdout) > 500


def test_two_keys_of_one_store_can_be_told_apart_and_not_across_stores(tmp_path: Path) -> None:
    def hashes(store_name: str) -> list[str]:
        with Store.open(tmp_path / store_name) as store:
            for i, key in enumerate(["first", "first", "second"]):
                log = tmp_path / f"{store_name}-{i}.log"
                log.write_text(
                    f"[2026-05-0{i + 1} 10:00:00] server_args={{'model_path': 'm', 'api_key': "
                    f"'{key}-{CANARY}'}}\n{decode('10:00:01')}\n"
                )
                import_paths(store, [str(log)])
            with store.cursor() as con:
                rows = con.execute("SELECT args FROM runs ORDER BY started_at").fetchall()
        return [json.loads(args)["api_key"] for (args,) in rows]

    one, other = hashes("a.duckdb"), hashes("b.duckdb")
    assert one[0] == one[1] != one[2]
    assert not {*one} & {*other}
