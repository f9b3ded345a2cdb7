"""Secrets are gone before anything is stored."""

from __future__ import annotations

import json
import time

import pytest

from ingest.pipeline import Pipeline
from parsers.server_args import config_hash, parse_dump, redact, redact_text
from tests.logs import SOURCE, decode, read, sglang_boot, text

CANARY = "Zk9canary7Q2"


@pytest.mark.parametrize(
    "shape",
    [
        "--api-key {}",
        "--api-key={}",
        "api_key='{}', x=1",
        '"api_key": "{}"',
        "HF_TOKEN={}",
        "hf_token: {}",
        "OPENAI_API_KEY={} vllm serve",
        "AWS_SECRET_ACCESS_KEY={}",
        "https://user:{}@host/path",
        "Authorization: Bearer {}",
        "'authorization': 'Bearer {}'",
        "password={}",
        "ssl_keyfile_password='{}'",
        "sk-{}0000",
        "hf_{}0000",
        "ghp_{}000000",
        "token sk-proj-{}-x",
        "eyJ{}.eyJ{}.sig",
        "'api_key': ['{}', 'x{}']",
        "api_keys=[a,{}]",
        "'api_key': ['a', '{}",
        "'credentials': {'a': '{}'}",
        "'token': '{}'",
        '"token": "{}"',
        "--token {}",
        "token={}",
        "pwd={}",
        "'pwd': '{}'",
        "access_key={}",
        "secret_access_key: {}",
        "wandb_key='{}'",
        "WANDB_API_KEY={}",
        "password='two words {}'",
        "passphrase: {}",
        "apiKey: '{}'",
        "X-API-Key: {}",
        "redis://:{}@h:6379/0",
        "https://{}0000@host/path",
        "GET /v1/models?token={}&n=1",
        "https://b.s3.x.com/o?X-Amz-Signature={}&x=1",
        "https://b.s3.x.com/o?X-Amz-Credential={}%2F1",
        "https://acc.blob.x.net/c?sv=1&sig={}",
        "https://maps.x.com/api?key={}",
        r"""loader: '{\"api_key\": \"{}\"}'""",
        r'{"extra": "{\\\"hf_token\\\": \\\"{}\\\"}"}',
        "using Bearer {} now",
        "SERVICE_TOKEN={}",
        "xapp-1-A01-{}",
        "npm_{}0000000000000000000",
        "pypi-AgEI0{}0000000000",
        "sk_live_{}",
        "SG.{}0000.{}00000000",
        "gsk_0{}0000000000000000",
        "r8_0{}00000000000000000",
        "xai-0{}00000000000000000",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n{}\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIE\n{}",
    ],
)
def test_no_shape_of_a_secret_is_left(shape: str) -> None:
    assert CANARY not in redact_text(shape.replace("{}", CANARY))


@pytest.mark.parametrize(
    "harmless",
    [
        "max_total_tokens=65536",
        "tokenizer_path='org/model'",
        "hf_tokenizer_path='org/model'",
        "api_key=None",
        "'api_key': None, 'api_keys': []",
        "#token: 57",
        "#token: full=1809, swa=1200",
        "num_tokens=5, 'num_tokens': 5",
        "token usage: 0.12, token_usage=0.12, 'token_usage': 0.12",
        "'token': 57",
        "the key is to keep the key: value order, key=lambda",
        "next token: the",
        "a secret sauce and a password reset",
        "a@b.c",
        "ssh://git@host/x",
        "eos_token_id=2, bos_token='<s>'",
        "http://127.0.0.1:8000/v1?keys=1",
        "fw_bw_pass_of_the_whole_model",
        "pypi-mirror-of-the-whole-company",
        "npm_config_registry",
    ],
)
def test_what_is_no_secret_stays(harmless: str) -> None:
    assert redact_text(harmless) == harmless


def test_an_args_dump_keeps_names_and_hides_values() -> None:
    args = {"api_key": CANARY, "admin_api_key": None, "url": f"http://u:{CANARY}@h", "n_tokens": 3}
    hidden = redact(args)
    assert CANARY not in str(hidden)
    assert hidden["api_key"].startswith("‹redacted ")
    assert hidden["admin_api_key"] is None
    assert hidden["n_tokens"] == 3


def test_strings_of_json_and_nested_values_are_looked_into() -> None:
    args = {
        "loader": json.dumps({"api_key": CANARY, "n": 3, "deep": json.dumps({"pwd": CANARY})}),
        "credentials": {"main": CANARY, "list": [CANARY]},
        "api_keys": [CANARY, "b"],
        "access-key": CANARY,
        "python": f"{{'token': '{CANARY}'}}",
        "plain": '{"n": 3}',
        "max_total_tokens": 65536,
        "tokenizer_path": "org/model",
    }
    hidden = redact(args)
    assert CANARY not in json.dumps(hidden)
    assert json.loads(hidden["loader"])["n"] == 3
    same = ("plain", "max_total_tokens", "tokenizer_path")
    assert {name: hidden[name] for name in same} == {name: args[name] for name in same}


@pytest.mark.parametrize(
    "dump", ["{'a': 1, 'api_key': ['k1', 'k2'], 'b': 2}", "ServerArgs(a=1, token='x', b=2)"]
)
def test_a_redacted_dump_can_still_be_read(dump: str) -> None:
    args = parse_dump(redact_text(dump))
    assert (args["a"], args["b"]) == (1, 2)
    assert redact_text(redact_text(dump)) == redact_text(dump)


def test_a_field_of_a_sample_line_is_redacted() -> None:
    line = decode("10:00:01") + f", note: see http://u:{CANARY}@h/x?token={CANARY}"
    lines = [line, line.replace("running-req: 1", "running-req: 2")]
    lines += [decode("10:00:03") + f", api_key: {CANARY}"] * 2
    batch = read(text(lines))
    assert batch.samples["running_reqs"].to_list() == [1, 2, 1, 1]
    assert CANARY not in batch.samples.write_json()
    assert "note" in batch.samples["extra"][0]


def test_no_raw_text_is_kept_in_the_state() -> None:
    """What is kept for the next block: the last stamp, and a traceback that is cut off."""
    pipeline = Pipeline(SOURCE, "file")
    pipeline.feed(text([decode("10:00:01"), f"[2026-05-04 10:00:02] password={CANARY}"]))
    assert "10:00:02" in pipeline.state
    assert "password" not in pipeline.state
    torn = ["Traceback (most recent call last):", f"  File 'a', in f  # api_key={CANARY}"]
    pipeline.feed(text([*sglang_boot("10:00:03"), *torn]))
    assert "Traceback" in pipeline.state
    assert CANARY not in pipeline.state


def test_a_line_that_cannot_be_read_is_told_without_its_secrets() -> None:
    batch = read(text([f"[2026-05-04 10:00:01] Decode batch, #token: x, api_key: {CANARY}"]))
    assert batch.ingest_log.height == 1
    assert "canary" not in batch.ingest_log.write_csv()


@pytest.mark.parametrize(
    "piece",
    ["a", "token", "api_key ", "'api_key': [", "secret-", "\\", "://", "a:", "+", "'token': ", "-"],
)
def test_long_texts_are_searched_in_linear_time(piece: str) -> None:
    """One that is not would take minutes: the limit is far above what a slow machine needs."""
    started = time.process_time()
    redact_text(piece * (60_000 // len(piece)))
    assert time.process_time() - started < 5


def test_two_secrets_can_be_told_apart() -> None:
    assert redact({"api_key": "a"}) != redact({"api_key": "b"})
    assert redact({"api_key": "a"}, salt="x") != redact({"api_key": "a"}, salt="y")


def test_no_secret_of_a_dump_reaches_any_record() -> None:
    lines = sglang_boot("10:00:00", extra=f", 'api_key': '{CANARY}', 'tool_server': 'h:{CANARY}@x'")
    batch = read(text(lines))
    for name in ("events", "run_facts"):
        assert CANARY not in getattr(batch, name).write_csv()


@pytest.mark.parametrize(
    ("dump", "expected"),
    [
        ("ServerArgs(a='x, y', b=[1], d=L(e=1))", {"a": "x, y", "b": [1], "d": {"e": 1}}),
        ("{'a': <Kind.B: 2>, 'b': -0.5}", {"a": "<Kind.B: 2>", "b": -0.5}),
        ("Namespace(a=inf, b=True)", {"a": "inf", "b": True}),
        ("m='m', d=torch.bf16, c={\"k\":null}", {"m": "m", "d": "torch.bf16", "c": {"k": None}}),
        ("ServerArgs(a=1, b='it is cut o", {"a": 1}),
        ("{'a': 1, 'b': {'c': 2}, 'd': 'cut", {"a": 1, "b": {"c": 2}}),
        ("", {}),
        ("not a dump at all", {}),
    ],
)  # fmt: skip
def test_a_dump_of_any_form_is_read(dump: str, expected: dict[str, object]) -> None:
    assert parse_dump(dump) == expected


def test_a_configuration_is_the_same_on_another_port() -> None:
    assert config_hash({"tp": 2, "port": 1}) == config_hash({"tp": 2, "port": 2})
    assert config_hash({"tp": 2}) != config_hash({"tp": 4})
