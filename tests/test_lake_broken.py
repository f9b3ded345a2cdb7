"""A server that goes in the middle of an answer."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import pytest

from data.errors import StoreError
from data.store import Store
from tests.frames import decode, samples
from tests.pg_proxy import Proxy
from tests.postgres import Postgres

# Found by cutting off each message of a question in turn: an internal error follows upon these.
INLINED = b'FROM "public"."ducklake_inlined_data_'


def _ask(store: Store, query: str) -> list[tuple[object, ...]]:
    with store.cursor() as con:
        return con.execute(query).fetchall()


def _breaks(store: Store, proxy: Proxy) -> None:
    proxy.cut_off(INLINED)
    with pytest.raises(duckdb.InternalException):
        _ask(store, "SELECT * FROM sources")
    with pytest.raises(duckdb.FatalException, match="must be restarted"):
        store._con.execute("SELECT 1")


def test_a_store_that_broke_with_its_server_is_attached_anew(tmp_path: Path) -> None:
    server, socket = Postgres(), tmp_path / "p"
    socket.mkdir()
    proxy = Proxy(server.folder, socket)
    location = server.lake(tmp_path / "files").replace(str(server.folder), str(socket))
    try:
        with Store.open(location) as store:
            store.add_source("gpu1:/log", "file", "/log", None, None)
            store.append(samples([decode(1, run_id="r")]), None)
            _breaks(store, proxy)
            assert _ask(store, "SELECT count(*) FROM samples") == [(1,)]
            _breaks(store, proxy)
            store.append(samples([decode(2, run_id="r")]), None)
            assert _ask(store, "SELECT count(*) FROM samples") == [(2,)]
            _breaks(store, proxy)
            store.add_source("gpu1:/log", "file", "/log", "Other", None)
            assert _ask(store, 'SELECT label FROM sources ORDER BY "at"') == [(None,), ("Other",)]
            _breaks(store, proxy)
            server.stop("immediate")
            before = store.revision  # of the last look; a page goes on with what it has
            for attempt in (store.cursor, lambda: store.append(samples([decode(3)]), None)):
                with pytest.raises(StoreError, match="ducklake:postgres:"):
                    attempt()
            server.start()
            assert _ask(store, "SELECT count(*) FROM samples") == [(2,)]
            time.sleep(0.6)
            assert store.revision >= before
    finally:
        proxy.close()
        server.close()
