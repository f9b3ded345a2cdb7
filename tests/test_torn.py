"""Lines that are cut off or glued to others: each number they still give is the one printed."""

from __future__ import annotations

import json

import pytest

from parsers import records
from tests.logs import decode, prefill, read, stats, text

HEAD = "(APIServer pid=7) INFO 05-04 10:00:10 [metrics.py:101] "
SPEC = (
    f"{HEAD}SpecDecoding metrics: Mean acceptance length: 2.47, Accepted throughput: 14.20 "
    "tokens/s, Drafted throughput: 28.90 tokens/s, Accepted: 147 tokens, Drafted: 289 tokens, "
    "Per-position acceptance rate: 0.812, 0.455, 0.203, Avg Draft acceptance rate: 77.8%"
)
RATE_FIRST = (
    f"{HEAD}SpecDecoding metrics: Draft acceptance rate: 60.4%, Mean acceptance length: 1.84, "
    "Accepted: 912 tokens, Drafted: 1510 tokens, Per-position acceptance rate: 0.841"
)
OLD_SPEC = (
    "INFO 05-04 10:00:10 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.667, "
    "System efficiency: 0.612, Number of speculative tokens: 3, Number of accepted tokens: 214, "
    "Number of draft tokens: 321, Number of emitted tokens: 245."
)
OLD_STATS = (
    "INFO 05-04 10:00:10 metrics.py:351] Avg prompt throughput: 12.5 tokens/s, Avg generation "
    "throughput: 48.1 tokens/s, Running: 12 reqs, Swapped: 0 reqs, Pending: 31 reqs, GPU KV cache "
    "usage: 47.9%, CPU KV cache usage: 12.3%."
)
OLDEST = (
    "new fill batch. #seq: 35. #cached_token: 155. #new_token: 2010. #remaining_req: 14. "
    "#running_req: 3. tree_cache_hit_rate: 17.53%."
)
KV_FETCH = stats("05-04 10:00:05", 51.5, 12).replace(
    "GPU KV", "KV fetch: 1 waiting to start, 0 in progress, 2 completed waiting, GPU KV"
)
WHOLE = [
    decode("10:00:01", 12, 1374.52, accept=2.57),
    prefill("10:00:01", 12, 17, tokens=6412),
    prefill("10:00:01", 12, 17).replace("cuda graph: False, ", "").replace(
        "900.00", "951.37, cuda graph: True"
    ),
    stats("05-04 10:00:05", 51.5, 12, prompt=17.3),
    KV_FETCH,
    SPEC,
    RATE_FIRST,
    OLD_SPEC,
    OLD_STATS,
    OLDEST,
]  # fmt: skip
OTHER = {"run_id", "source_id", "file_id", "byte_offset", "line_no", "ts", "ts_inferred"}
OTHER |= {"interval_s", "interval_from", "window", "extra", "engine_index"}
# Computed from what is left of a line, or from the line before.
OTHER |= {"request_steps", "draft_accept_rate", "accept_def", "prefix_hit_rate", "hit_rate_scope"}
OTHER |= {"accepted_tokens", "drafted_tokens"}
NAMES = [name for name in records.SAMPLES if name not in OTHER and not name.startswith("spec_")]
BAR = "  2% 1/64 [00:04<04:51,  4.62s/it]"


def _wrong(torn: list[str], whole: str, ending: str) -> list[object]:
    full = read(text([whole])).samples.row(0, named=True)
    told = json.loads(full["extra"] or "{}")
    found: list[object] = []
    for row in read(text(line + ending for line in torn)).samples.iter_rows(named=True):
        line = torn[row["line_no"] - 1]
        extra = json.loads(row["extra"] or "{}")
        found += [(line, n, row[n]) for n in NAMES if row[n] not in (None, full[n])]
        found += [(line, n, v) for n, v in extra.items() if told.get(n) != v]
    return found


@pytest.mark.parametrize("whole", WHOLE, ids=range(len(WHOLE)))
@pytest.mark.parametrize("ending", ["", " "], ids=repr)
def test_a_line_cut_anywhere_gives_no_wrong_number(whole: str, ending: str) -> None:
    torn = [whole[:cut] for cut in range(len(whole) // 4, len(whole))]
    assert _wrong(torn, whole, ending) == []


@pytest.mark.parametrize("whole", WHOLE, ids=range(len(WHOLE)))
def test_a_torn_line_glued_to_text_gives_no_wrong_number(whole: str) -> None:
    torn = [whole[:cut] for cut in range(len(whole) // 4, len(whole))]
    assert _wrong(torn, whole, "Traceback (most recent call last):") == []


def test_a_torn_line_after_whole_ones_gives_no_wrong_number() -> None:
    """Patterns learnt from whole lines do not take what is left of one."""
    for whole in WHOLE:
        torn = [whole[:cut] for cut in range(len(whole) // 4, len(whole))]
        full = read(text([whole])).samples.row(0, named=True)
        rows = read(text([whole] * 3 + torn)).samples
        for row in rows.iter_rows(named=True):
            wrong = {n: row[n] for n in NAMES if row[n] not in (None, full[n])}
            assert wrong == {}, row["line_no"]


PAIRS = [
    (decode("10:00:41"), decode("10:00:42", 5, 70)),
    (decode("10:00:41"), prefill("10:00:42", 3, 5)),
    (stats("05-04 10:00:05", 50, 1), stats("05-04 10:00:15", 60, 5)),
    (stats("05-04 10:00:05", 50, 1), SPEC),
    (stats("05-04 10:00:05", 50, 1), stats("05-04 10:00:15", 60, 5).partition(") ")[2]),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=range(len(PAIRS)))
@pytest.mark.parametrize("bar", ["", BAR, BAR + "\r" + BAR], ids=["no bar", "bar", "bars"])
def test_glued_records_are_all_read(one: str, other: str, bar: str) -> None:
    apart = read(text([one, other])).samples
    glued = read(text([bar + one + other])).samples
    assert glued.select(NAMES).rows() == apart.select(NAMES).rows()
    assert glued["line_no"].to_list() == [1, 1]
    start = len((bar + one).encode())
    assert glued["byte_offset"].to_list() == [len(bar.encode()), start]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=range(len(PAIRS)))
def test_a_torn_record_does_not_take_the_next_one_with_it(one: str, other: str) -> None:
    alone = read(text([other])).samples
    for cut in (len(one) // 2, len(one) // 3 * 2, len(one) - 3):
        rows = read(text([one[:cut] + other])).samples
        last = rows.tail(1)
        assert last["byte_offset"].to_list() == [cut]
        assert last.select(NAMES).rows() == alone.select(NAMES).rows()


def test_a_torn_record_that_gives_nothing_is_told() -> None:
    one, other = stats("05-04 10:00:05", 50, 1), stats("05-04 10:00:15", 60, 5)
    torn = one[: one.index("throughput: ") + 14]
    batch = read(text([torn + other]))
    assert batch.samples["running_reqs"].to_list() == [5]
    assert batch.ingest_log["kind"].to_list() == ["damaged"]


QUOTES = [
    "[2026-05-04 10:00:02] Receive: obj=GenerateReqInput(rid='a', text='{}')",
    "[2026-05-04 10:00:02] Finish: obj=GenerateReqInput(rid='a', text='{}'), out={{'text': ''}}",
    "INFO 05-04 10:00:02 [logger.py:42] Received request cmpl-1: prompt: '{}', params: x(n=1)",
    "INFO 05-04 10:00:02 [logger.py:81] Generated response cmpl-1: output: '{}', reason: stop",
    '[2026-05-04 10:00:02] {{"event": "request.finished", "obj": {{"text": "{}"}}}}',
    "[2026-05-04 10:00:02] got {{'messages': [{{'role': 'user', 'content': '{}'}}]}}",
    '[2026-05-04 10:00:02] body "{{\\"prompt\\": \\"{}\\"}}"',
    "[2026-05-04 10:00:02] batch prompt=['{}']",
]


@pytest.mark.parametrize("quote", QUOTES, ids=range(len(QUOTES)))
@pytest.mark.parametrize("record", [decode("10:00:01"), stats("05-04 10:00:01", 5, 1), SPEC])
def test_what_a_request_quotes_is_no_sample(quote: str, record: str) -> None:
    line = quote.format(record)
    batch = read(text([line]))
    assert (batch.samples.height, batch.ingest_log.height) == (0, 0)
    glued = read(text([decode("10:00:00", 9) + line])).samples
    assert glued["running_reqs"].to_list() == [9]


def test_named_shapes_of_torn_values() -> None:
    def last(line: str) -> dict[str, object]:
        return read(text([line])).samples.row(0, named=True)

    cut = decode("10:00:01").partition("throughput")[0]
    assert cut.endswith("cuda graph: True, gen ")
    assert last(cut)["graph_on"] is True
    line = stats("05-04 10:00:05", 50, 2)
    assert last(line[: line.index("3.1%") + 2])["kv_usage"] is None
    assert last(line[: line.index("12.5%") + 3])["prefix_hit_rate"] is None
    assert last(SPEC[:-2])["accept_rate_raw"] is None
    for end in ("0.812, 0.455, 0", "0.812, 0.", "0.812, ", "0.8", "1.", "0"):
        row = last(SPEC[: SPEC.index("0.812")] + end)
        assert row["accept_per_position"] is None, end
    assert last(SPEC)["accept_per_position"] == [0.812, 0.455, 0.203]
    assert last(RATE_FIRST)["accept_per_position"] == [0.841]
    line = prefill("10:00:01").partition("#pending-token:")[0]
    assert last(line + "#pending-token:")["extra"] is None


def test_values_that_hold_commas_are_kept_whole() -> None:
    row = read(text([KV_FETCH])).samples.row(0, named=True)
    assert json.loads(row["extra"]) == {
        "KV fetch": "1 waiting to start, 0 in progress, 2 completed waiting"
    }
    assert row["kv_usage"] == 0.031
