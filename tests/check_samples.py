"""Hold `servescope parse` against a folder of logs with known answers.

    python tests/check_samples.py FOLDER [--only counts,samples,card,faults,runs,bench]
                                         [--in-process]

FOLDER/expected.jsonl has one object a file: sample counts, the first and last sample with its
printed labels and values, the run card, the number of runs and of faults, the values of a
benchmark's result under their printed names. Every mismatch is one line; the exit code is 1 when
there is any.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Record = dict[str, Any]

# Printed label -> column and the factor from the printed to the stored value. A label that is
# not here, or whose column is empty, is looked for in `extra`.
COLUMNS: dict[str, tuple[str, float]] = {
    "#running-req": ("running_reqs", 1),
    "#queue-req": ("queued_reqs", 1),
    "#token": ("kv_tokens", 1),
    "#full token": ("kv_tokens", 1),
    "#gpu token": ("kv_tokens", 1),
    "token usage": ("kv_usage", 1),
    "accept len": ("accept_len", 1),
    "accept rate": ("accept_rate_raw", 1),
    "gen throughput (token/s)": ("gen_tok_s", 1),
    "input throughput (token/s)": ("prompt_tok_s", 1),
    "#new-seq": ("new_seqs", 1),
    "#new-token": ("new_tokens", 1),
    "#cached-token": ("cached_tokens", 1),
    "#retracted-req": ("retracted_reqs", 1),
    "Engine": ("engine_index", 1),
    "Running": ("running_reqs", 1),
    "Waiting": ("queued_reqs", 1),
    "Pending": ("queued_reqs", 1),
    "Avg prompt throughput": ("prompt_tok_s", 1),
    "Avg generation throughput": ("gen_tok_s", 1),
    "GPU KV cache usage": ("kv_usage", 0.01),
    "CPU KV cache usage": ("kv_usage", 0.01),
    "Prefix cache hit rate": ("prefix_hit_rate", 0.01),
    "Mean acceptance length": ("accept_len", 1),
    "Accepted": ("accepted_tokens", 1),
    "Drafted": ("drafted_tokens", 1),
    "Number of accepted tokens": ("accepted_tokens", 1),
    "Number of draft tokens": ("drafted_tokens", 1),
    "Avg Draft acceptance rate": ("accept_rate_raw", 0.01),
    "Draft acceptance rate": ("accept_rate_raw", 0.01),
    "Per-position acceptance rate": ("accept_per_position", 1),
}
GRAPH_LABELS = {"cuda graph", "cpu graph", "npu graph", "musa graph"}
RANKS = {"DP": "dp_rank", "TP": "tp_rank", "PP": "pp_rank", "EP": "ep_rank"}

# Run card name -> the run's column, or the argument names that hold it.
CARD_COLUMNS = {
    "version": "engine_version",
    "model": "model",
    "tp": "tp",
    "pp": "pp",
    "max_model_len": "context_len",
    "max_seq_len": "context_len",
    "max_num_seqs": "max_running_requests",
    "speculative": "spec_algorithm",
    "speculative_algorithm": "spec_algorithm",
    "num_speculative_tokens": "spec_draft_tokens",
    "kv_cache_tokens": "max_total_tokens",
}
# Printed name of a benchmark's value -> column and the factor from the printed to the stored
# value. A name that is not here, or has no number, is looked for in `extra`.
BENCH_COLUMNS: dict[str, tuple[str, float]] = {
    "Traffic request rate": ("request_rate", 1),
    "Max request concurrency": ("concurrency", 1),
    "Max reqeuest concurrency": ("concurrency", 1),
    "Successful requests": ("completed", 1),
    "Benchmark duration (s)": ("duration_s", 1),
    "Total input tokens": ("input_tokens", 1),
    "Total generated tokens": ("output_tokens", 1),
    "Request throughput (req/s)": ("request_throughput_rps", 1),
    "Output token throughput (tok/s)": ("output_tok_s", 1),
    "Peak output token throughput (tok/s)": ("peak_output_tok_s", 1),
    "Total token throughput (tok/s)": ("total_tok_s", 1),
    "Total Token throughput (tok/s)": ("total_tok_s", 1),
    "Total throughput (tok/s)": ("total_tok_s", 1),
    "Accept length": ("accept_len", 1),
    "model_id": ("model", 1),
    "max_concurrency": ("concurrency", 1),
    "request_rate": ("request_rate", 1),
    "num_prompts": ("num_prompts", 1),
    "duration": ("duration_s", 1),
    "completed": ("completed", 1),
    "total_input_tokens": ("input_tokens", 1),
    "total_output_tokens": ("output_tokens", 1),
    "request_throughput": ("request_throughput_rps", 1),
    "output_throughput": ("output_tok_s", 1),
    "accept_length": ("accept_len", 1),
}
BENCH_LATENCY = re.compile(
    r"(?i)(mean|median|p90|p95|p99)[ _](ttft|tpot|itl|e2e|e2el)(?: latency)?(?: \(ms\)|(_ms))?"
)

CARD_ARGS = {"prefix_caching": "enable_prefix_caching"}


@dataclass
class Parsed:
    """What one parse of a file gave."""

    code: int
    error: str
    runs: dict[str, Record] = field(default_factory=dict)  # the last record of a run wins
    samples: list[Record] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)
    bench: list[Record] = field(default_factory=list)


def parse_cli(path: Path) -> Parsed:
    """Parse a file with the real command in a process of its own."""
    command = [sys.executable, "-m", "servescope", "parse", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    return _collect(done.returncode, done.stdout, done.stderr)


def parse_in_process(path: Path) -> Parsed:
    """The same command without starting a process."""
    from typer.testing import CliRunner

    import servescope

    done = CliRunner().invoke(servescope.app, ["parse", str(path)])
    return _collect(done.exit_code, done.stdout, done.stderr)


def _collect(code: int, out: str, error: str) -> Parsed:
    parsed = Parsed(code, error.strip())
    for line in out.splitlines():
        record = json.loads(line)
        match record["record"]:
            case "run":
                parsed.runs[record["run_id"]] = record
            case "sample":
                parsed.samples.append(record)
            case "event":
                parsed.events.append(record)
            case "bench":
                parsed.bench.append(record)
    return parsed


def check_counts(want: Record, got: Parsed, text: str) -> Iterator[str]:
    """The number of samples of each kind, and of decode lines with acceptance."""
    kinds = Counter(sample["kind"] for sample in got.samples)
    for kind in ("decode", "prefill", "stats", "spec"):
        expected = want.get(f"n_{kind}", 0)
        if kinds[kind] != expected:
            yield f"{kind} samples: expected {expected}, got {kinds[kind]}"
    if "n_accept_lines" in want:
        decode = [s for s in got.samples if s["kind"] == "decode" and "accept_len" in s]
        if len(decode) != want["n_accept_lines"]:
            yield f"decode samples with acceptance: {want['n_accept_lines']}, got {len(decode)}"


def check_samples(want: Record, got: Parsed, text: str) -> Iterator[str]:
    """First and last sample, and the ranks and engines that print."""
    for name in ("first", "last", "first_spec", "last_spec"):
        if name in want:
            kind = want[name]["kind"]
            ordered = [s for s in got.samples if s["kind"] == kind]
            if not ordered:
                yield f"{name}: no {kind} sample"
                continue
            sample = ordered[0 if name.startswith("first") else -1]
            yield from (f"{name}: {why}" for why in sample_differences(want[name], sample))
    if "ranks" in want:
        ranks = {tuple(s.get(column) for column in RANKS.values()) for s in got.samples}
        if ranks != {_ranks(text) for text in want["ranks"]}:
            yield f"ranks: expected {want['ranks']}, got {sorted(ranks, key=str)}"
    if "engines" in want:
        engines = {s.get("engine_index") for s in got.samples}
        if engines != {int(index) for index in want["engines"]}:
            yield f"engines: expected {want['engines']}, got {sorted(engines, key=str)}"


def sample_differences(want: Record, sample: Record) -> Iterator[str]:
    """How a sample differs from its line number, clock, rank and printed fields."""
    if sample["line_no"] != want["line"]:
        yield f"line: expected {want['line']}, got {sample['line_no']}"
    clock = str(sample.get("ts", "")).replace("T", " ")[:19]
    if want["ts"] is not None and not clock.endswith(want["ts"]):
        yield f"clock: expected {want['ts']}, got {clock}"
    if "rank" in want:
        rank = tuple(sample.get(column) for column in RANKS.values())
        if rank != _ranks(want["rank"]):
            yield f"rank: expected {want['rank']!r}, got {rank}"
    for label, value in want["fields"].items():
        found = stored_value(label, sample, want["fields"])
        if not same_value(found, value):
            yield f"{label}: expected {value}, got {found}"


def stored_value(label: str, sample: Record, fields: Record) -> Any:
    """The value stored for a printed label, back in the unit in which it was printed."""
    if label in GRAPH_LABELS:
        return sample.get("graph_on")
    extra = json.loads(sample.get("extra", "{}"))
    if label in extra:
        return extra[label]
    # V0 of vLLM prints the CPU cache beside the GPU's: there it must not become the usage.
    if label not in COLUMNS or (label == "CPU KV cache usage" and "GPU KV cache usage" in fields):
        return None
    column, factor = COLUMNS[label]
    if label == "Draft acceptance rate" and "Number of accepted tokens" in fields:
        factor = 1  # V0 printed a fraction, V1 a percentage
    value = sample.get(column)
    if label == "Engine" and value is not None:
        return f"{value:03}"
    return value if value is None or factor == 1 else value / factor


def _ranks(text: str) -> tuple[int | None, ...]:
    found = dict(re.findall(r"\b([DTPE]P)(\d+)", text))
    return tuple(int(found[name]) if name in found else None for name in RANKS)


def same_value(found: Any, expected: Any) -> bool:
    """Whether a stored value is the printed one; units behind a number do not matter."""
    if isinstance(expected, list):
        pairs = isinstance(found, list) and len(found) == len(expected)
        return pairs and all(same_value(a, b) for a, b in zip(found, expected, strict=True))
    if isinstance(expected, bool) or found is None or expected is None:
        return found is expected
    if isinstance(expected, (int, float)):
        number = re.match(r"-?[\d.]+(?:e-?\d+)?", str(found))
        return number is not None and abs(float(number.group()) - expected) < 1e-6
    return str(found) == str(expected)


def check_card(want: Record, got: Parsed, text: str) -> Iterator[str]:
    """The run card. What is only known from elsewhere, not from the file, is not asked for."""
    runs = list(got.runs.values())
    if want.get("bench") and not runs:
        return  # the card of a benchmark's result, not of a server
    for name, value in want.get("run_card", {}).items():
        if not _printed(name, value, text):
            continue
        found = list(_card_values(name, runs, got.events))
        if value is None:
            if any(one is not None for one in found):
                yield f"{name}: expected none, got {found}"
        elif not any(_same_name(one, value) for one in found):
            yield f"{name}: expected {value!r}, got {found}"
    if "max_running_requests_effective" in want:
        caps = [run.get("max_running_requests") for run in runs]
        if caps != [want["max_running_requests_effective"]]:
            yield f"max_running_requests: {want['max_running_requests_effective']}, got {caps}"


def _printed(name: str, value: Any, text: str) -> bool:
    """Whether the file itself says this; some cards add what the author knew besides."""
    if name in ("ray_actor", "pid", "role"):
        return False  # how the log was wrapped, or what the thread said: no fact of the card
    if name == "num_speculative_tokens":
        return bool(re.search(r"num_spec|speculative tokens", text))
    return not isinstance(value, str) or name == "ready_line" or value in text


def _card_values(name: str, runs: list[Record], events: list[Record]) -> Iterator[Any]:
    """Every value under which the run card may hold this name."""
    if name == "ready_line":
        yield from (run["ready_at"] and "ready" for run in runs if "ready_at" in run)
        return
    for run in runs:
        yield run.get(CARD_COLUMNS.get(name, name))
        for column in ("args", "effective"):
            yield from _named(json.loads(run.get(column, "{}")), CARD_ARGS.get(name, name))
    if name.endswith(("_s", "_gib")):
        yield from (event.get("duration_s") for event in events)
        yield from (event.get("memory_gb") for event in events)


def _named(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == name:
                yield inner
            yield from _named(inner, name)


def _same_name(found: Any, expected: Any) -> bool:
    if isinstance(expected, str) and found is not None:
        return found == "ready" or str(found).casefold() == expected.casefold()
    return same_value(found, expected)


def check_faults(want: Record, got: Parsed, text: str) -> Iterator[str]:
    """The number of incidents of severity fault."""
    faults = [event for event in got.events if event["severity"] == "fault"]
    incidents = {event.get("incident_id") or event["byte_offset"]: event for event in faults}
    if len(incidents) != want["n_faults"]:
        titles = [event["title"] for event in incidents.values()]
        yield f"faults: expected {want['n_faults']}, got {len(incidents)} {titles}"


def check_runs(want: Record, got: Parsed, text: str) -> Iterator[str]:
    """The number of runs."""
    if "n_runs" in want and len(got.runs) != want["n_runs"]:
        yield f"runs: expected {want['n_runs']}, got {len(got.runs)}"


def check_bench(want: Record, got: Parsed, text: str) -> Iterator[str]:
    """The values of the first result of a file, or of every cell of a table made by hand."""
    bench = want.get("bench", {})
    if "columns" in bench:
        yield from _check_by_hand(bench, got)
        return
    if bench and not got.bench:
        yield "no result"
        return
    for name, value in bench.items():
        found = bench_value(name, got.bench[0])
        if not same_value(found, value):
            yield f"{name}: expected {value}, got {found}"


def bench_value(name: str, record: Record) -> Any:
    """The value stored for a printed name, back in the unit in which it was printed."""
    extra = json.loads(record.get("extra", "{}"))
    if name in extra:
        return extra[name]
    if match := BENCH_LATENCY.fullmatch(name):
        metric = "e2e" if match[2].lower().startswith("e2e") else match[2].lower()
        value = record.get(f"{metric}_ms_{match[1].lower()}")
        in_seconds = match[3] is None and not name.endswith("(ms)")
        return value / 1000 if in_seconds and value is not None else value
    column, factor = BENCH_COLUMNS.get(name, ("", 1.0))
    value = record.get(column)
    if column in ("concurrency", "request_rate") and value is None:
        return None
    return value if value is None or factor == 1 else value / factor


def _check_by_hand(bench: Record, got: Parsed) -> Iterator[str]:
    """Cells whose meaning the title gives are points; without one nothing may be guessed."""
    if "rows" not in bench:
        if got.bench:
            yield f"{len(got.bench)} results of columns whose unit is not in the table"
        return
    head = bench["columns"]
    cells = {
        (float(row[0]), float(load)): value
        for row in bench["rows"]
        for load, value in zip(head[1:], row[1:], strict=True)
    }
    found = {}
    for record in got.bench:
        extra = json.loads(record["extra"])
        found[float(extra["TP"]), record["concurrency"]] = record.get("accept_len")
    if found != cells:
        yield f"cells: expected {cells}, got {found}"


Check = Callable[[Record, Parsed, str], Iterator[str]]
ASPECTS: dict[str, Check] = {
    "counts": check_counts,
    "samples": check_samples,
    "card": check_card,
    "faults": check_faults,
    "runs": check_runs,
    "bench": check_bench,
}


def expectations(folder: Path) -> list[Record]:
    """The known answers of a folder."""
    lines = (folder / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def differences(want: Record, got: Parsed, text: str, aspects: list[str]) -> Iterator[str]:
    """One line per mismatch of one file, each led by its aspect."""
    if got.code != 0:
        yield f"exit: {got.code}: {got.error.splitlines()[-1:] or 'no message'}"
    for aspect in aspects:
        yield from (f"{aspect}: {line}" for line in ASPECTS[aspect](want, got, text))


def main() -> int:
    """Check a folder; 1 on any mismatch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds expected.jsonl and the files it names")
    parser.add_argument("--only", default=",".join(ASPECTS), help="aspects, default: %(default)s")
    parser.add_argument("--in-process", action="store_true", help="do not start a process a file")
    options = parser.parse_args()
    aspects = options.only.split(",")
    if unknown := set(aspects) - set(ASPECTS):
        parser.error(f"unknown aspects {sorted(unknown)}; there are {', '.join(ASPECTS)}")
    if not (options.folder / "expected.jsonl").is_file():
        parser.error(f"{options.folder} holds no expected.jsonl")
    wants = expectations(options.folder)
    paths = [options.folder / want["file"] for want in wants]
    parse = parse_in_process if options.in_process else parse_cli
    with ThreadPoolExecutor(1 if options.in_process else 2) as pool:
        parses = list(pool.map(parse, paths))
    wrong: Counter[str] = Counter()
    for want, path, got in zip(wants, paths, parses, strict=True):
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = list(differences(want, got, text, aspects))
        for line in lines:
            print(f"{want['file']}: {line}")
        wrong.update({line.split(":", 1)[0] for line in lines})
    for aspect in ["exit", *aspects]:
        print(f"{aspect}: {len(wants) - wrong[aspect]} of {len(wants)} files right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
