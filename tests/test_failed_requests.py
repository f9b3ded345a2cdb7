"""Each request that was refused or failed has the time of its own line, however a log is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.pipeline import Batch, SourceInfo
from parsers import access_counts, forms
from tests.logs import read, sglang_boot, stats, text

# What a line is (a note prints a stamp and is no access line, a bare one prints none), how many
# seconds after ten it is printed, and the status that it tells.
Line = tuple[str, int, int]
LINES = st.lists(
    st.tuples(
        st.sampled_from(["stamped", "stamped", "bare", "note", "odd"]),
        st.integers(1, 150),
        st.sampled_from([200, 200, 200, 400, 500]),
    ),
    min_size=1,
    max_size=40,
)


def at(seconds: int) -> str:
    return f"10:{seconds // 60:02}:{seconds % 60:02}"


def printed(line: Line) -> str:
    kind, seconds, status = line
    asked = f'INFO:     127.0.0.1:4000 - "POST /v1/completions HTTP/1.1" {status} Words'
    if kind == "note":
        return f"[2026-05-04 {at(seconds)}] a line of no meaning"
    if kind == "odd":  # that no form reads
        asked = asked.replace("127.0.0.1:4000", "gpu1")
    return asked if kind == "bare" else f"[2026-05-04 {at(seconds)}] {asked}"


def of_each(lines: Sequence[Line]) -> Counter[tuple[str, str]]:
    """Title and time of each failed request, read line by line."""
    found, last = Counter[tuple[str, str]](), at(0)
    for kind, seconds, status in lines:
        last = last if kind == "bare" else at(seconds)
        if kind != "note" and status >= 400:
            found[f"{status} on POST /v1/completions", last] += 1
    return found


def told(batch: Batch) -> Counter[tuple[str, str]]:
    events = batch.events.filter(pl.col("kind").is_in(["client_error", "server_error"]))
    found = Counter[tuple[str, str]]()
    for title, ts, n in events.select("title", "ts", "count").iter_rows():
        found[title, f"{ts:%H:%M:%S}"] += n
    return found


def ended_at(batch: Batch) -> datetime:
    ended: datetime = batch.run_facts.sort("seq")["ended_at"][-1]
    return ended


@pytest.mark.parametrize("fewest", [1, forms.FEWEST], ids=["forms", "patterns"])
@pytest.mark.parametrize("many", [1, access_counts._MANY], ids=["together", "alone"])
@settings(max_examples=40)
@given(lines=LINES, cuts=st.sets(st.integers(1, 42), max_size=8))
def test_a_failed_request_has_its_own_time(
    fewest: int, many: int, lines: list[Line], cuts: set[int]
) -> None:
    data = text([*sglang_boot(at(0)), *map(printed, lines)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "FEWEST", fewest)
        patch.setattr(access_counts, "_MANY", many)
        whole, pieces = read(data), read(data, cuts=sorted(cuts))
    assert told(whole) == told(pieces) == of_each(lines)
    latest = max((s for kind, s, _ in lines if kind in ("stamped", "odd")), default=0)
    assert f"{ended_at(pieces):%H:%M:%S}" >= at(latest)
    assert ended_at(whole) == ended_at(pieces)


def test_a_success_before_it_lends_no_time() -> None:
    data = text(map(printed, [("stamped", 5, 200), ("stamped", 45, 500)]))
    for fewest in (1, forms.FEWEST):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forms, "FEWEST", fewest)
            batch = read(data)
        assert told(batch) == {("500 on POST /v1/completions", at(45)): 1}
        assert batch.events["line_no"].to_list() == [2]
        assert f"{ended_at(batch):%H:%M:%S}" == at(45)


def test_the_clock_of_another_form_lends_no_time() -> None:
    """Torch's own names no day that anybody could tell: the file's was taken for it."""
    torch = "[W504 10:00:07.040661907 utils.cpp:68] Warning: NUMA binding: Using MEMBIND policy"
    lines = [stats("05-04 10:00:05", 50, 2), torch, printed(("bare", 0, 500))]
    source = SourceInfo("test", clock_hint=datetime(2026, 6, 1))
    for cuts in (range(0), range(len(lines))):
        events = read(text(lines), cuts, source).events
        assert events["ts"].to_list() == [datetime(2026, 5, 4, 10, 0, 5)]


def test_what_a_run_that_was_cut_off_printed_last_is_its_end() -> None:
    """A server that begins in the same minute, in the same block, is another one."""
    first = [printed(("stamped", second, 200)) for second in (1, 31, 11)]
    lines = [*sglang_boot(at(0)), *first, *sglang_boot(at(40)), printed(("stamped", 55, 200))]
    for cuts in (range(0), range(len(lines))):
        facts = read(text(lines), cuts).run_facts.sort("seq").group_by("run_id").last()
        ends = facts.sort("started_at")["ended_at"]
        assert [f"{end:%H:%M:%S}" for end in ends] == [at(31), at(55)]
