"""The files of a store of many machines on S3: a local server that speaks its protocol."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from data.errors import StoreError
from data.store import Store
from tests.frames import decode, samples
from tests.postgres import Postgres

ROWS = 1500  # more than the catalog keeps by itself


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of an S3 server with the buckets `logs` and `private`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | {"PYTHONWARNINGS": ""},
    )  # fmt: skip
    with server:
        try:
            assert server.stderr is not None
            while b"Running on" not in (line := server.stderr.readline()):
                assert line, "the server has ended"
            for bucket in ("logs", "private"):
                put(f"{url}/{bucket}")
            put(f"{url}/private/secret.csv", b"a\n1\n")
            yield url
        finally:
            server.terminate()


def put(url: str, data: bytes = b"") -> None:
    request = urllib.request.Request(url, data=data, method="PUT")
    request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=key/20260301/us-east-1/s3/x")
    with suppress(urllib.error.HTTPError), urllib.request.urlopen(request) as answer:
        assert answer.status == 200


@pytest.fixture
def location(endpoint: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store to be made whose files go there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-4711")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    return f"{postgres.words(postgres.empty())} data_path=s3://logs/fleet"


def listed(endpoint: str) -> str:
    with urllib.request.urlopen(f"{endpoint}/logs?list-type=2") as answer:
        return str(answer.read().decode())


def test_rows_lie_in_the_bucket(location: str, endpoint: str) -> None:
    with Store.open(location) as store:
        store.append(samples(decode(n) for n in range(ROWS)), None)
    assert "fleet/main/decode_rows/" in listed(endpoint)
    words = location.partition(" data_path")[0]
    with Store.open(words) as store, store.cursor() as con:  # the catalog knows where they are
        assert con.execute("SELECT count(*) FROM samples").fetchone() == (ROWS,)
        store.shrink()
        assert con.execute("SELECT sum(gen_tok_s) FROM samples").fetchone() == (100.0 * ROWS,)
        assert store.size_bytes() > 0


def test_no_other_bucket_is_in_reach_and_no_key_is_shown(location: str) -> None:
    with Store.open(location) as store, store.cursor() as con:
        with pytest.raises(duckdb.Error, match="disabled by configuration"):
            con.execute("SELECT * FROM 's3://private/secret.csv'")
        for catalog in ("duckdb_secrets()", "duckdb_settings()", "duckdb_databases()"):
            assert "canary" not in str(con.execute(f"SELECT * FROM {catalog}").fetchall())


def test_missing_credentials_are_told(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreError, match="AWS_SECRET_ACCESS_KEY are not set"):
        Store.open(location)


def test_a_local_folder_needs_none(postgres: Postgres, tmp_path: Path) -> None:
    with Store.open(postgres.lake(tmp_path)) as store, store.cursor() as con:
        assert con.execute("SELECT count(*) FROM samples").fetchone() == (0,)
