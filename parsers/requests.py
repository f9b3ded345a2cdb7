"""Lines of a server about one request, to records: counts, times and ends, never anyone's text.

What such a line is, is decided from the start of its message: a prompt can hold every word that
any other line is known by. vLLM V1 logs no completion and no latency; SGLang's finished lines
(`--log-requests`) have counts and end-to-end seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from parsers.heads import Head, read_head
from parsers.server_args import parse_dump, redact_text

_DUMP_CHARS = 65_536  # a longer line is read from its meta_info on
_ID_CHARS = 200
# meta_info of SGLang's finished lines that has no column of its own.
_META = (
    "queue_time", "inference_time", "decode_throughput", "total_retractions", "num_retractions",
    "spec_verify_ct", "spec_accept_rate", "spec_accept_length", "spec_accept_token_num",
    "spec_draft_token_num", "spec_num_correct_drafts", "spec_num_proposed_drafts",
    "weight_version", "dp_rank",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """One line about one request; places as in `Mark`."""

    off: int
    no: int
    engine: str
    event: str  # received, added, finished, aborted, failed, response, time_stats
    date: str | None
    time: str | None
    fields: dict[str, Any] = field(default_factory=dict)  # columns of the record requests
    extra: dict[str, Any] = field(default_factory=dict)


_Read = tuple[str, dict[str, Any], dict[str, Any]]  # event, columns, extra
_Reader = Callable[[re.Match[str]], Iterator[_Read]]


def read(lines: pl.DataFrame) -> list[Request]:
    """Requests of lines (columns line, off, no) that contain one of GATES."""
    found: list[Request] = []
    for line, off, no in lines.select("line", "off", "no").iter_rows():
        head = read_head(line)
        for engine, pattern, reader in _READERS:
            match = pattern.match(head.message)
            if match is not None:
                found += _rows(reader(match), engine, head, (off, no))
                break
    return found


def _rows(
    reads: Iterator[_Read], engine: str, head: Head, place: tuple[int, int]
) -> Iterator[Request]:
    for event, columns, extra in reads:
        name = columns.get("request_id")
        if name is not None:
            columns["request_id"] = redact_text(str(name)[:_ID_CHARS])
        if head.ranks:
            extra["rank"] = head.ranks.strip()
        yield Request(*place, engine, event, head.date, head.time, columns, extra)


# Texts and token ids: not kept, so not read either. Quoted texts as wholes, whatever they hold.
_LONG = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[0-9, ]{60,}\]")
_SHORT_CHARS = 100


def _shortened(match: re.Match[str]) -> str:
    text = match[0]
    return (
        text if len(text) <= _SHORT_CHARS and text[0] != "[" else "[]" if text[0] == "[" else "''"
    )


def _sglang_dump(match: re.Match[str]) -> Iterator[_Read]:
    """`Receive: obj=…` and `Finish: obj=…, out={…}` (0.4.1 on)."""
    text = _LONG.sub(_shortened, match.string[match.start("obj") :])
    event = "received" if match["what"] == "Receive" else "finished"
    short = len(text) <= _DUMP_CHARS
    dump = parse_dump(text) if short else {}
    obj = dump.get("obj")
    columns: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    if isinstance(obj, dict):
        columns["request_id"] = obj.get("rid")
        sampling = obj.get("sampling_params")
        if isinstance(sampling, dict) and sampling.get("max_new_tokens") is not None:
            extra["max_new_tokens"] = sampling["max_new_tokens"]
    if event == "received":
        yield event, columns, extra
        return
    for meta in _metas(dump.get("out"), text):
        more, rest = _meta(meta)
        yield event, columns | more, extra | rest


def _metas(out: Any, text: str) -> Iterator[dict[str, Any]]:
    outs = out if isinstance(out, list) else [out]
    metas = [o["meta_info"] for o in outs if isinstance(o, dict) and "meta_info" in o]
    if not metas:
        # Cut off or odd: the last one stands behind whatever the model wrote.
        tail = text.rpartition("'meta_info': ")[2]
        metas = [parse_dump(tail)] if tail != text else []
    yield from (m if isinstance(m, dict) else {} for m in metas or [{}])


def _meta(meta: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    reason = meta.get("finish_reason")
    seconds = meta.get("e2e_latency")
    columns = {
        "request_id": meta.get("id"),
        "input_tokens": meta.get("prompt_tokens"),
        "output_tokens": meta.get("completion_tokens"),
        "cached_tokens": meta.get("cached_tokens"),
        "e2e_ms": seconds * 1000 if isinstance(seconds, int | float) else None,
        "finish_reason": reason.get("type") if isinstance(reason, dict) else reason,
    }
    extra = {k: meta[k] for k in _META if isinstance(meta.get(k), int | float | str)}
    return {k: v for k, v in columns.items() if v is not None}, extra


def _sglang_json(match: re.Match[str]) -> Iterator[_Read]:
    """`--log-requests-format json` (0.5.7 on)."""
    try:
        said = json.loads(match.string)
    except (ValueError, RecursionError):
        return
    event = str(said.get("event", "")).split(".")[1]
    columns: dict[str, Any] = {"request_id": said.get("rid")}
    if event != "finished":
        yield "received", columns, {}
        return
    for meta in _metas(said.get("out"), ""):
        more, rest = _meta(meta)
        yield event, columns | more, rest


_NUMBERED = re.compile(r"(\w+)=([0-9.]+)\s?(ms|GB/s|MB)?(?=,|$)")


def _sglang_times(match: re.Match[str]) -> Iterator[_Read]:
    """`Req Time Stats(…)` (0.4.6.post4 on): durations in milliseconds, times epoch seconds."""
    columns = {
        "request_id": match["id"],
        "input_tokens": int(match["input"]),
        "output_tokens": int(match["output"]),
    }
    extra: dict[str, Any] = {"type": match["type"]}
    if match["room"]:
        extra["bootstrap_room"] = int(match["room"])
    for name, value, unit in _NUMBERED.findall(match["times"]):
        extra[f"{name} ({unit})" if unit else name] = float(value)
    yield "time_stats", columns, extra


_SAMPLING = {
    name: re.compile(rf"\b{name}=(-?[0-9.]+)(?=[,)])")
    for name in ("n", "max_tokens", "temperature")
}
_IDS = re.compile(r"prompt[_ ]token[_ ]ids: \[([0-9, ]*)\]")


def _vllm_received(match: re.Match[str]) -> Iterator[_Read]:
    """Sampling settings and the number of prompt tokens; on by default to 0.10.0."""
    text = match.string
    at = text.rfind("SamplingParams(")
    settings = text[at : text.find(")", at)] + ")" if at >= 0 else ""
    extra = {}
    for name, pattern in _SAMPLING.items():
        value = pattern.search(settings)
        if value:
            extra[name] = float(value[1]) if "." in value[1] else int(value[1])
    ids = _IDS.search(text, max(at, 0))
    columns: dict[str, Any] = {"request_id": match["id"]}
    if ids and ids[1].strip():
        columns["input_tokens"] = ids[1].count(",") + 1
    yield "received", columns, extra


def _vllm_ids(match: re.Match[str]) -> Iterator[_Read]:
    """Added, finished and aborted requests; one line can name several."""
    event = match["what"].lower()
    reason = {"finish_reason": "abort"} if event == "aborted" else {}
    for name in match["id"].split(","):
        yield event, {"request_id": name.strip(), **reason}, {}


def _vllm_end(match: re.Match[str]) -> Iterator[_Read]:
    """`Request ID aborted.` and the failures; what a client sent may follow them."""
    if match["what"] == "aborted":
        yield "aborted", {"request_id": match["id"], "finish_reason": "abort"}, {}
    else:
        why = match["why"] or match["class"]
        reason = {"finish_reason": why} if why else {}
        yield "failed", {"request_id": match["id"], **reason}, {}


_OUTPUT_IDS = re.compile(r"output_token_ids: \[([0-9, ]*)\], finish_reason: ")


def _vllm_response(match: re.Match[str]) -> Iterator[_Read]:
    """`--enable-log-outputs` (0.10.1 on); a part of a stream is no end of it."""
    if match["part"] == "streaming delta":
        return
    columns: dict[str, Any] = {"request_id": match["id"]}
    reason = match.string.rpartition("finish_reason: ")[2]
    if re.fullmatch(r"\w{1,40}", reason):
        columns["finish_reason"] = reason
    ids = list(_OUTPUT_IDS.finditer(match.string))
    if ids and ids[-1][1].strip():
        columns["output_tokens"] = ids[-1][1].count(",") + 1
    yield "response", columns, {}


_READERS: tuple[tuple[str, re.Pattern[str], _Reader], ...] = (
    ("sglang", re.compile(r"(?P<what>Receive|Finish): (?P<obj>obj=)"), _sglang_dump),
    (
        "sglang",
        re.compile(r'\{"timestamp": "[^"]*", "event": "request\.(?:received|finished)"'),
        _sglang_json,
    ),
    (
        "sglang",
        re.compile(
            r"Req Time Stats\(rid=(?P<id>[^,]+), (?:bootstrap_room=(?P<room>[0-9]+), )?"
            r"input len=(?P<input>[0-9]+), output len=(?P<output>[0-9]+), type=(?P<type>\w+)\): "
            r"(?P<times>.*)"
        ),
        _sglang_times,
    ),
    ("vllm", re.compile(r"Received request (?P<id>[^\s:]+): "), _vllm_received),
    (
        "vllm",
        re.compile(r"(?P<what>Added|Finished|Aborted) request(?:\(s\))? (?P<id>\S+?)\.$"),
        _vllm_ids,
    ),
    (
        "vllm",
        re.compile(
            r"Request (?P<id>\S+) (?:(?P<what>aborted)\.$"
            r"|failed(?: \((?P<why>engine dead|bad request|input error)\)| due to "
            r"| with an (?P<class>internal error)|(?= validation: )|(?=\.)))"
        ),
        _vllm_end,
    ),
    (
        "vllm",
        re.compile(r"Generated response (?P<id>\S+?)(?: \((?P<part>[a-z ]+)\))?: output: "),
        _vllm_response,
    ),
)  # fmt: skip
GATES = [
    "Receive: obj=", "Finish: obj=", '"event": "request.', "Req Time Stats(", "Received request ",
    "Added request ", "Finished request ", "Aborted request", "Generated response ", "Request ",
]  # fmt: skip
