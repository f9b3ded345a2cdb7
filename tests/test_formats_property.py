"""What holds for every line, whatever the order of its fields, its wrapper or its bytes."""

from __future__ import annotations

import json
import random
import re

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import measure
from ingest.pipeline import _KINDS, _LOOKS, Pipeline
from ingest.scan import GATES
from parsers import lines
from parsers.samples import Found, Reader
from tests.formats_corpus import Entry, become, entries
from tests.logs import SOURCE, decode, one, prefill, read, stats, text

PERIODIC = [e for e in entries() if e.kind in ("decode", "prefill", "stats", "spec")]
# Lines that are nothing but fields between commas: these can come in any order.
PLAIN = [
    e
    for e in PERIODIC
    if re.search(r"(?:Decode|Prefill) batch(?: \[[0-9]+\])?, #", e.line)
    and "est uncap" not in e.line
]
_HEAD = re.compile(r"(.*batch(?: \[[0-9]+\])?, )(.*?)(, ?)?$")
_WRAPPERS = (
    "{}",
    "sgl-1  | {}",
    "2026-05-04T10:00:01.123456789Z {}",
    "2026-05-04T10:00:01.123456789Z stdout F {}",
    "(EngineActor pid=41) {}",
    "[pod/sgl-0/main] {}",
)


def _samples(found: Found) -> list[dict[str, object]]:
    frame = measure.together(found.frames)
    return [
        {k: v for k, v in row.items() if v is not None}
        for row in frame.rows(named=True)
    ]  # fmt: skip


def _same_stamp(row: dict[str, object]) -> dict[str, object]:
    """A whole stamp is one value on the fast way, date and time on the other."""
    stamp = row.pop("stamp", None)
    if stamp is not None:
        row["date"], row["time"] = str(stamp)[:10], str(stamp)[11:]
    return row


@settings(max_examples=40)
@given(st.lists(st.sampled_from(PERIODIC), min_size=1, max_size=30))
def test_the_fast_way_reads_what_the_tolerant_one_does(chosen: list[Entry]) -> None:
    block = lines.split(text(e.line for e in chosen), 0)
    candidates = block.filter(block["line"].str.contains_any(GATES))
    fast = Reader(_KINDS, GATES, _LOOKS)
    fast.read(candidates)  # learns
    tolerant = Reader(_KINDS, GATES, _LOOKS)
    tolerant_found = tolerant._read_alone(candidates)
    rows = [_same_stamp(row) for row in _samples(fast.read(candidates))]
    assert _as_text(rows) == _as_text([_same_stamp(r) for r in _samples(tolerant_found)])


def _as_text(rows: list[dict[str, object]]) -> list[list[tuple[str, str]]]:
    return [sorted((name, str(value)) for name, value in row.items()) for row in rows]


@settings(max_examples=80)
@given(
    st.sampled_from(PLAIN),
    st.randoms(use_true_random=False),
    st.sampled_from(["", "#new-gauge: 12", "new rate (x/s): 3.25", "mode: fancy"]),
    st.sampled_from(_WRAPPERS),
)
def test_fields_in_any_order_with_new_ones_and_any_wrapper(
    entry: Entry, shuffle: random.Random, more: str, wrapper: str
) -> None:
    head, fields, end = _HEAD.match(entry.line).groups()  # type: ignore[union-attr]
    pieces = re.split(r", (?=[#A-Za-z])", fields) + ([more] if more else [])
    shuffle.shuffle(pieces)
    line = wrapper.format(head + ", ".join(pieces) + (end or ""))
    want = json.loads(json.dumps(entry.expect["samples"][0]))
    if more:
        name, _, value = more.partition(": ")
        told = float(value) if value[0].isdigit() else value
        want["extra"] = {**want.get("extra", {}), name: told}
    (got,) = become(line)["samples"]
    assert got == want


@settings(max_examples=60)
@given(st.sampled_from(PLAIN), st.sampled_from(["DP3", "TP5", "PP1", "EP2", "ATTN_CP1 TP2"]))
def test_rank_tokens_in_any_number(entry: Entry, ranks: str) -> None:
    line = re.sub(r"^(\[[0-9]{4}-[0-9-]{5} [0-9:.]+)[^\]]*\]", rf"\1 {ranks}]", entry.line)
    if not line.startswith("["):
        return
    (got,) = become(line)["samples"]
    tokens = dict(re.findall(r"\b([DTPE]P)([0-9]+)", ranks))
    shown = {k: got.get(f"{k.lower()}_rank") for k in ("DP", "TP", "PP", "EP")}
    assert shown == {k: int(tokens[k]) if k in tokens else None for k in shown}


_PIECES = [
    *(e.line.encode() for e in entries()),
    decode("10:00:01").encode(),
    prefill("10:00:02").encode(),
    stats("05-04 10:00:05", 50, 2).encode(),
    b"\x00\xff\xfe",
    b"\r",
    b"\xc3(",
    b"server_args={'a': ",
    b"Finish: obj=(((((",
    b'{"timestamp": "x", "event": "request.finished"',
    b"KV Transfer metrics: a=={{",
    b"\x1b[31m",
]


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(st.sampled_from(_PIECES), st.integers(0, 400), st.binary(max_size=12)), max_size=8
    )
)
def test_no_bytes_raise(parts: list[tuple[bytes, int, bytes]]) -> None:
    data = b"".join(piece[:cut] + noise for piece, cut, noise in parts)
    pipeline = Pipeline(SOURCE, "file")
    one([pipeline.feed(data), pipeline.finish()])


def test_what_looks_like_a_sample_is_counted_by_its_shape() -> None:
    odd = [
        f"[2026-05-04 10:00:0{i} TP0] Decode batch v2 | running={i} | tokens={i}" for i in range(5)
    ]
    torn = ["[2026-05-04 10:00:09 TP0] Decode batch, #token: 12"] * 3
    later = ["(APIServer pid=7) INFO 05-04 10:00:10 [loggers.py:3] Engine 000: Throughput 5 tok/s"]
    log = read(text([*odd, *torn, *later, decode("10:00:11")])).ingest_log
    told = {row["kind"]: row for row in log.sort("byte_offset").rows(named=True)}
    assert log.height == 3
    assert [(r["kind"], r["n"]) for r in log.sort("byte_offset").rows(named=True)] == [
        ("unknown", 5),
        ("damaged", 3),
        ("unknown", 1),
    ]
    assert "running=0" in log.sort("byte_offset")["shape"][0]
    assert set(told) == {"unknown", "damaged"}


def test_a_prompt_that_quotes_a_line_is_a_request_and_nothing_else() -> None:
    quoted = f"{decode('09:00:00', 7)} server_args=x Traceback 'GET /x HTTP/1.1' 200"
    line = (
        "[2026-05-04 10:00:01] Finish: obj=GenerateReqInput(rid='r7', text=\""
        + quoted
        + "\"), out={'text': \"the 'meta_info': {'prompt_tokens': 9} of it\", 'meta_info': "
        "{'id': 'r7', 'finish_reason': {'type': 'stop', 'matched': 2}, 'prompt_tokens': 41, "
        "'completion_tokens': 12, 'cached_tokens': 3, 'e2e_latency': 0.75}}"
    )
    batch = read(text([decode("10:00:00"), line, decode("10:00:02")]))
    assert batch.samples.height == 2
    # Told as judged harmless, without a word of what the client sent.
    assert batch.events.select("kind", "evidence").rows() == [("harmless", None)]
    assert batch.ingest_log.height == 0
    (row,) = batch.requests.rows(named=True)
    shown = ("request_id", "input_tokens", "output_tokens", "cached_tokens", "e2e_ms")
    assert [row[name] for name in shown] == ["r7", 41, 12, 3, 750.0]
    assert row["finish_reason"] == "stop"
    assert batch.requests.filter(pl.col("run_id") == batch.samples["run_id"][0]).height == 1
