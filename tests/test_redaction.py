"""Secrets are gone before anything is stored."""

from __future__ import annotations

import pytest

from parsers.server_args import config_hash, parse_dump, redact, redact_text
from tests.logs import read, sglang_boot, text

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
    ],
)
def test_no_shape_of_a_secret_is_left(shape: str) -> None:
    assert CANARY not in redact_text(shape.replace("{}", CANARY))


@pytest.mark.parametrize(
    "harmless",
    ["max_total_tokens=65536", "tokenizer_path='org/model'", "api_key=None", "#token: 57", "a@b.c"],
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
