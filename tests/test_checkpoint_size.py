"""A checkpoint stays small however long the argument dump is, and nothing of it is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from data.store import Store
from ingest import state
from tests.following import following
from tests.growing import append, decodes
from tests.waiting import until

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_unpack_undoes_pack(value: Any) -> None:
    packed, texts = state.pack(value)
    assert json.loads(state.unpack(packed, texts)) == value


def test_live_commits_do_not_repeat_the_arguments(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    names = "".join(f", option_{number}='{'x' * 20}'" for number in range(400))
    log.write_bytes(
        f"[2026-03-01 12:00:00] server_args=ServerArgs(model_path='org/m'{names})\n".encode()
    )
    lines = decodes(0, 40).splitlines(keepends=True)
    with Store.open(tmp_path / "s.duckdb") as store, store.cursor() as con:
        for half in (lines[:20], lines[20:]):
            with following(store, log):
                for line in half:
                    before = store.revision
                    append(log, line)
                    until(lambda before=before: store.revision > before)  # type: ignore[misc]
        sizes = con.execute("SELECT max(length(state)), count(*) FROM checkpoints").fetchone()
        args = con.execute("SELECT length(args) FROM runs").fetchall()
        numbers = con.execute("SELECT count(DISTINCT kv_tokens) FROM samples").fetchone()
    assert sizes is not None
    assert sizes[0] < 3000
    assert sizes[1] >= 40
    assert len(args) == 1
    assert args[0][0] > 10_000  # all arguments, also after the restart
    assert numbers == (40,)
