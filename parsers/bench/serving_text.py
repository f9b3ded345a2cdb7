"""Tables that serving benchmarks print: SGLang (serving, offline) and vLLM (serving).

Both engines print the same "Serving Benchmark Result" title, so rows tell them apart: only
SGLang's table has `Backend`, `Traffic request rate`, `Max request concurrency`, `Concurrency`,
retokenized tokens and `E2E Latency`. Labels changed between releases (`reqeuest` in SGLang
0.3.6.post3 to 0.4.6.post3, `Total Token throughput` in vLLM to 0.12); unknown ones are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from parsers.bench import serving_json
from parsers.bench.points import Point, keep, new_point, number, put, scalar
from parsers.lines import peel
from parsers.server_args import parse_dump, redact

OFFLINE = "sglang.bench_offline_throughput"
TITLE = re.compile(r"={3,}\s*(Serving|Offline Throughput) Benchmark Result\s*={3,}")
_RULE = re.compile(r"={20,}$")
_SECTION = re.compile(r"-{3,}\s*(.*?)\s*-{3,}$")
_ROW = re.compile(r"(\s*[A-Za-z\[][^:\t|=]{1,70}?(?:\([^)]*\))?):\s*(.*?)\s*$")
_COMMENT = re.compile(r"\s*#\s?")

_COLUMNS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "benchmark duration (s)": "duration_s",
    "total input tokens": "input_tokens",
    "total generated tokens": "output_tokens",
    "request throughput (req/s)": "request_throughput_rps",
    "output token throughput (tok/s)": "output_tok_s",
    "peak output token throughput (tok/s)": "peak_output_tok_s",
    "total token throughput (tok/s)": "total_tok_s",
    "total throughput (tok/s)": "total_tok_s",
    "traffic request rate": "request_rate",
    "request rate configured (rps)": "request_rate",
    "max request concurrency": "concurrency",
    "max reqeuest concurrency": "concurrency",
    "maximum request concurrency": "concurrency",
    "accept length": "accept_len",
    "acceptance length": "accept_len",
}
_COUNTS = {"completed", "failed", "input_tokens", "output_tokens"}
_LATENCY = re.compile(
    r"(?i)(mean|median|p50|p90|p95|p99) (ttft|tpot|itl|e2e latency|e2el) \((ms|s)\)$"
)
_SGLANG_ROW = re.compile(
    r"(?i)backend$|traffic request rate$|max req\w+ concurrency$|concurrency$|.*\(retokenized\)$"
    r"|.* e2e latency "
)
_BEFORE = re.compile(
    r"(?i)(traffic request rate|request rate|maximum request concurrency|burstiness factor)"
    r"\s*[:=]\s*([\w.+-]+)"
)
_COMMAND = re.compile(
    r"(sglang\.(?:bench_serving|benchmark\.serving)|vllm bench serve|benchmark_serving\.py)\s"
)
_OPTION = re.compile(r"--([a-z][\w-]*)(?:[ =]+(?!--)(\"[^\"]*\"|'[^']*'|\S+))?")
_KEPT_ARGS = (
    "model", "port", "host", "base_url", "backend", "dataset_name", "num_prompts",
    "max_concurrency", "request_rate", "random_input_len", "random_output_len",
    "random_range_ratio", "ignore_eos",
    "disable_ignore_eos", "temperature", "warmup_requests", "num_warmups", "served_model_name",
    "sharegpt_output_len", "gsp_num_groups", "gsp_prompts_per_group", "gsp_output_len",
    "input_len", "output_len", "endpoint", "flush_cache", "label", "tag", "result_filename",
    "output_file",
)  # fmt: skip


@dataclass(slots=True)
class _Table:
    """Rows of one table as printed, and what stood before it."""

    kind: str  # Serving or Offline Throughput
    rows: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)

    def add(self, label: str, value: str) -> None:
        """Keep a row; of two with one label the later gets a number."""
        name, at = label, 2
        while name in self.rows:
            name, at = f"{label} ({at})", at + 1
        self.rows[name] = value


def points(text: str) -> list[Point]:
    """The point of every table in a text: alone, in a shell transcript, or inside a log."""
    return [point for table in _tables(text) if (point := _point(table)) is not None]


def clean(line: str) -> str:
    """The line without colours, a container's prefix and a comment sign."""
    return _COMMENT.sub("", peel(line), count=1).rstrip()


def _tables(text: str) -> Iterator[_Table]:
    table: _Table | None = None
    context = _Table("")
    for raw in text.splitlines():
        line = clean(raw)
        if title := TITLE.search(line):
            if table is not None:
                yield table
            table = _Table(title[1], before=context.before, args=context.args)
            context = _Table("", args=context.args)
        elif table is None:
            _read_before(line, context)
        elif _RULE.match(line) and table.rows:
            yield table
            table = None
        elif not _SECTION.match(line) and (row := _ROW.match(line)):
            if _starts_anew(row[1].strip(), table):
                yield table
                table = _Table(table.kind, args=table.args)
            if _is_row(row[1], line):
                table.add(row[1].strip(), row[2])
    if table is not None:
        yield table


def _starts_anew(label: str, table: _Table) -> bool:
    """A second count of requests: the title of this table was cut away."""
    return label == "Successful requests" and label in table.rows


def _is_row(label: str, line: str) -> bool:
    """A row of the table: padded, or of a known label. Other lines may sit between."""
    name = label.strip()
    padded = len(line) > 41 and line[40] == " " and line[39] in " :"
    known = name.lower() in _COLUMNS or _LATENCY.match(name) is not None
    return known or (padded and not name[:1].isdigit()) or _SGLANG_ROW.match(name) is not None


def _read_before(line: str, context: _Table) -> None:
    """What a client prints before its table: its arguments, the load it makes."""
    if "Namespace(" in line:
        context.args = parse_dump(line[line.index("Namespace(") :])
        context.before = {}
    elif _COMMAND.search(line):
        options = {name.replace("-", "_"): value for name, value in _OPTION.findall(line)}
        if options.keys() & {"model", "port", "dataset_name", "num_prompts"}:  # a command, no prose
            context.args = {name: scalar(value.strip("\"'")) for name, value in options.items()}
    elif match := _BEFORE.match(line.strip()):
        context.before[match[1].lower()] = match[2]


def _point(table: _Table) -> Point | None:
    if not any(label.lower() == "successful requests" for label in table.rows):
        return None  # another program's table under the same title
    point = new_point(_tool(table))
    for label, value in table.rows.items():
        if not _put_row(point, label, value):
            keep(point, {label: scalar(value)})
    _put_before(point, table)
    return point


def _tool(table: _Table) -> str:
    if table.kind.startswith("Offline"):
        return OFFLINE
    if any(_SGLANG_ROW.match(label) for label in table.rows):
        return serving_json.SGLANG
    return serving_json.VLLM


def _put_row(point: Point, label: str, value: str) -> bool:
    """Whether the row went into a column; `inf` and `not set` say that there is no limit."""
    read = number(value)
    if read is None:
        return False
    if match := _LATENCY.match(label):
        metric = "e2e" if match[2].lower().startswith("e2e") else match[2].lower()
        statistic = "median" if match[1].lower() == "p50" else match[1].lower()
        put(point, f"{metric}_ms_{statistic}", read * (1000 if match[3] == "s" else 1))
        return True
    column = _COLUMNS.get(label.lower())
    if column is None or column in point:
        return False
    put(point, column, int(read) if column in _COUNTS else read)
    return True


def _put_before(point: Point, table: _Table) -> None:
    """Fill in what only the lines around the table say."""
    for label, column in (
        ("maximum request concurrency", "concurrency"),
        ("traffic request rate", "request_rate"),
        ("request rate", "request_rate"),
    ):
        put(point, column, number(table.before.get(label)))
    args = table.args
    for name, column in (("model", "model"), ("dataset_name", "dataset")):
        if isinstance(args.get(name), str):
            put(point, column, redact(args[name]))
    if (prompts := number(args.get("num_prompts"))) is not None and _counts_prompts(args):
        put(point, "num_prompts", int(prompts))
    held = {name: args[name] for name in _KEPT_ARGS if args.get(name) not in (None, "")}
    if held:
        keep(point, {"args": held})


def _counts_prompts(args: dict[str, Any]) -> bool:
    """Whether num_prompts is what was sent: other data sets bring a number of their own."""
    return str(args.get("dataset_name", "")).startswith("random")
