"""However a file is cut into blocks, and whatever bytes it holds, the records are the same."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.pipeline import Batch
from tests.logs import decode, prefill, read, sglang_boot, stats, text, timed

SAMPLES = sorted(Path("data/samples").glob("*/server.log"))
LINES = st.sampled_from(
    [
        *sglang_boot("10:00:00"),
        decode("10:00:01"),
        decode("10:00:01", 3, 90, accept=1.7),
        decode("10:00:02", 3, 90, ranks=" DP1 TP1"),
        decode("10:00:40", 2, 80),
        prefill("10:00:01"),
        prefill("10:00:39", 2, 0),
        stats("05-04 10:00:05", 50, 2),
        stats("05-04 10:00:15", 0.0, 0, engine=1),
        '[2026-05-04 10:00:03] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK',
        '[2026-05-04 10:01:03] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 400 Bad Request',
        '[2026-05-04 10:00:57] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK',
        '[2026-05-04 10:00:07] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 500 Error',
        '[2026-05-04 10:00:47] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 500 Error',
        'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
        'INFO:     127.0.0.1:1 - "GET /from/10:00:33 HTTP/1.1" 404 Not Found',
        "[2026-05-04 10:00:37] a line of no meaning",
        "Traceback (most recent call last):",
        '  File "/opt/a.py", line 1, in f',
        "RuntimeError: broken",
        "[2026-05-04 10:00:50] Scheduler hit an exception: Traceback (most recent call last):",
        "[2026-05-04 10:00:58] Scheduler hit an exception: Traceback (most recent call last):",
        "[2026-05-04 10:00:55] INFO:     Shutting down",
        "INFO:     Application startup complete.",
        "UserWarning: 'python -m sglang.launch_server' is still supported, but ...",
        "",
        "a line of no meaning",
        decode("10:00:41") + decode("10:00:42", 5, 70),
        "  2% 1/64 [00:04<04:51,  4.62s/it]" + prefill("10:00:43"),
        stats("05-04 10:00:20", 50, 2) + stats("05-04 10:00:30", 60, 3, engine=1),
        stats("05-04 10:00:20", 50, 2)[:150] + stats("05-04 10:00:30", 60, 3),
        decode("09:00:00"),
        decode("13:00:00", 2, 60),
    ]
)


def _summed(events: pl.DataFrame) -> pl.DataFrame:
    """Events with those of one incident that say the same as one: a block folds its own. Requests
    that were refused or failed only with those of one time."""
    key = ["incident_id", "kind", "title"]
    same = pl.col("byte_offset").first().over(key)
    kept = pl.col("incident_id").is_null() | pl.col("kind").is_in(["retraction", "stop"])
    asked = pl.col("evidence").str.contains(' HTTP/1.1" ', literal=True)
    events = events.sort("byte_offset", maintain_order=True).with_columns(
        place=pl.when(kept).then("byte_offset").otherwise(same), own=pl.when(asked).then("ts")
    )
    grouped = events.group_by("place", "own", *key, maintain_order=True)
    last = pl.max("ts").alias("last_ts")
    return grouped.agg(pl.exclude("count", "place").first(), last, pl.sum("count"))


def _assert_same(one: Batch, other: Batch) -> None:
    assert timed(one).equals(timed(other))
    assert _summed(one.events).equals(_summed(other.events))
    counts = [
        b.access_counts.group_by(pl.exclude("n")).agg(pl.sum("n")).sort(pl.all())
        for b in (one, other)
    ]
    assert counts[0].equals(counts[1])
    newest = [
        b.run_facts.sort("seq").group_by("run_id", maintain_order=True).last().drop("seq")
        for b in (one, other)
    ]
    assert newest[0].equals(newest[1])


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_real_logs_in_small_blocks(path: Path) -> None:
    data = path.read_bytes()
    _assert_same(read(data), read(data, cuts=range(0, data.count(b"\n"), 7)))


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=30), st.sets(st.integers(1, 29), max_size=6))
def test_any_lines_in_any_blocks(lines: list[str], cuts: set[int]) -> None:
    data = text(lines)
    fair = [cut for cut in sorted(cuts) if not _waits(lines[max(0, cut - 21) : cut])]
    _assert_same(read(data), read(data, cuts=fair))


def _waits(lines: list[str]) -> bool:
    """Whether a traceback that a block leaves open, and so its effect on the run, waits for the
    next block, while serving lines behind it do not: a live page would stand still for them."""
    serving = ("batch", "throughput", "HTTP/1.1")
    at = [n for n, line in enumerate(lines) if "Traceback" in line]
    return bool(at) and any(word in line for line in lines[at[0] + 1 :] for word in serving)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=200), LINES.map(str.encode)), max_size=12))
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    batch = read(b"\n".join(pieces))
    assert batch.samples["byte_offset"].is_sorted()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400))
def test_a_torn_line_never_gives_a_wrong_number(cut: int) -> None:
    """Whatever is left of a line: each field it still gives is the one that was printed."""
    whole = decode("10:00:01", 12, 1374.02, accept=2.5)
    full = read(text([whole])).samples.row(0, named=True)
    torn = read(whole[: min(cut, len(whole))].encode() + b"\n")
    for row in torn.samples.iter_rows(named=True):
        for name in ("running_reqs", "kv_tokens", "kv_usage", "accept_len", "gen_tok_s"):
            assert row[name] in (full[name], None), name


def test_offsets_are_those_of_the_bytes() -> None:
    lines = ["é\N{SNOWMAN} not ascii", decode("10:00:01"), "\x00\x00", decode("10:00:02") + "\r"]
    data = text(lines)
    rows = read(data).samples
    assert rows["byte_offset"].to_list() == [
        data.index(b"[2026-05-04 10:00:01"), data.index(b"[2026-05-04 10:00:02"),
    ]  # fmt: skip
    assert rows["line_no"].to_list() == [2, 4]


def test_bytes_that_are_no_utf8_move_no_offset() -> None:
    data = b"\xff\xfe broken\n" + text([decode("10:00:01")])
    assert read(data).samples["byte_offset"].to_list() == [data.index(b"[")]


def test_two_records_in_one_line_are_two() -> None:
    glued = decode("10:00:41") + decode("10:00:42", 5, 70)
    rows = read(text([glued])).samples
    assert rows["running_reqs"].to_list() == [1, 5]
    assert rows["byte_offset"].to_list() == [0, len(decode("10:00:41"))]
    assert rows["line_no"].to_list() == [1, 1]


def test_a_line_that_cannot_be_read_is_told() -> None:
    log = read(text(["[2026-05-04 10:00:01] Decode batch, #token: x"])).ingest_log
    assert log.select("kind", "shape").rows() == [
        ("damaged", "[0-0-0 0:0:0] Decode batch, #token: x")
    ]


def test_a_field_that_is_new_to_us_is_kept_under_its_name() -> None:
    line = decode("10:00:01").replace(
        "#queue-req: 0", "warp factor: 9.5, #queue-req: 0, mode: fast"
    )
    row = read(text([line])).samples.row(0, named=True)
    assert row["extra"] == '{"warp factor": 9.5, "mode": "fast"}'
    assert row["queued_reqs"] == 0


def test_the_order_of_fields_does_not_matter() -> None:
    head, _, tail = decode("10:00:01", 7, 55.5).partition("Decode batch, ")
    turned = head + "Decode batch, " + ", ".join(reversed(tail.split(", ")))
    one, other = (
        read(text([line])).samples.drop("extra")
        for line in (head + "Decode batch, " + tail, turned)
    )
    assert one.equals(other)


def test_reading_alone_and_by_pattern_agree() -> None:
    """Every line once in bulk, where patterns are learnt, and once glued behind a progress bar,
    where each is read by itself."""
    lines = [decode(f"10:00:{s:02}", s, 10.5 * s, accept=1 + s / 10) for s in range(1, 30)]
    bulk = read(text(lines)).samples
    alone = read(text("99%| 1/2 [00:04<04:51,  4.62it/s]" + line for line in lines)).samples
    same = pl.exclude("byte_offset", "run_id")  # a run is named after its first record's place
    assert bulk.select(same).equals(alone.select(same))


@pytest.mark.parametrize("start", [b"x^2", b"x\x01", b"\x1f\x8b\0", b"\x28\xb5\x2f\xfd"])
def test_a_block_that_begins_like_a_packed_file_is_text(start: bytes) -> None:
    line = decode("10:00:01").encode()
    assert read(start + b"\n" + line + b"\n").samples.height == 1
