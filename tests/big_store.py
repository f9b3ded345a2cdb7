"""A store of many runs: the bundled runs of real servers, played over and over.

    python -m tests.big_store STORE [RUNS] [SAMPLES]

Every run is one of the bundled ones with its own name, time and place, its samples repeated until
it has its share, and its events, requests and benchmark results. The newest run has a tenth of all
samples, a million at most, over eight data-parallel ranks, and is still running. One run in twenty
ends in a crash.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import polars as pl

from data import bench, queries
from data.store import Store
from ingest.imports import import_paths
from parsers import records
from tests.frames import Frames

SAMPLES: Final = Path(__file__).parents[1] / "data" / "samples"
RANKS: Final = 8  # of every fifth run, and of the newest
BEGIN: Final = datetime(2026, 1, 5, 8, 0, 0)
_EVERY: Final = timedelta(hours=7)  # a start of a server
_BREAK: Final = timedelta(seconds=30)  # between two plays of a log
_BLOCK: Final = 250_000  # samples of an append
_LONGEST: Final = 1_000_000  # samples of a run
_PLACED: Final = ("run_id", "source_id", "file_id")


@dataclass(frozen=True, slots=True)
class Template:
    """A bundled run."""

    card: Mapping[str, Any]
    samples: pl.DataFrame  # in the order of the log
    events: pl.DataFrame
    access: pl.DataFrame
    bench: pl.DataFrame
    windows: pl.DataFrame

    @property
    def period(self) -> timedelta:
        """How long one play of its samples takes."""
        first, last = self.card["first_ts"], self.card["last_ts"]
        return timedelta(seconds=round((last - first).total_seconds())) + _BREAK


@dataclass(frozen=True, slots=True)
class Play:
    """One run of the new store."""

    number: int
    template: Template
    n_samples: int
    ranks: int
    is_last: bool

    @property
    def place(self) -> dict[str, str]:
        """What its rows say of where they come from."""
        return {
            "run_id": f"{self.number * 2654435761 % 2**48:012x}",
            "source_id": f"/srv/logs/node{self.number % 40:02}/{self.number:04}/server.log",
            "file_id": f"{self.number:016x}",
        }

    @property
    def repeats(self) -> int:
        """How often the template is played, on all ranks together."""
        return -(-self.n_samples // self.template.samples.height)

    @property
    def later(self) -> timedelta:
        """From the template's start to that of this run."""
        begun: datetime = self.template.card["started_at"]
        return BEGIN + self.number * _EVERY - begun

    @property
    def longer(self) -> timedelta:
        """From the end of one play to that of the last one."""
        return ((self.repeats - 1) // self.ranks) * self.template.period


def build(store: Store, runs: int = 500, samples: int = 10_000_000) -> list[str]:
    """Fill an empty store that was opened for bulk; gives the ids of its runs, oldest first."""
    longest = min(samples // 10, _LONGEST)
    rest = (samples - longest) // max(1, runs - 1)
    templates = bundled()
    plays = []
    for number in range(runs):
        is_last = number == runs - 1
        template = templates[(runs - 1 - number) % len(templates)]
        ranks = RANKS if is_last or number % 5 == 0 else 1
        play = Play(number, template, longest if is_last else rest, ranks, is_last)
        _append(store, play)
        plays.append(play)
    store.append_all([], [])  # one transaction ends: 500 of them take longer than all their rows
    _add_bench(store, plays)
    return [play.place["run_id"] for play in plays]


def bundled() -> list[Template]:
    """The bundled runs, with benchmark results joined; the newest start with speculation first."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "store.duckdb") as store,
    ):
        import_paths(store, [str(SAMPLES)])
        with store.cursor() as con:
            cards = queries.runs_table(con).to_dicts()
            found = [_template(con, card) for card in cards]
    return sorted(found, key=lambda one: one.card["spec_algorithm"] != "NGRAM")


def _template(con: Any, card: Mapping[str, Any]) -> Template:
    def rows(table: str, schema: records.Schema) -> pl.DataFrame:
        names = ", ".join(f'"{name}"' for name in schema)
        query = f"SELECT {names} FROM {table} WHERE run_id = '{card['run_id']}'"
        found: pl.DataFrame = con.sql(query).pl()
        return found.select(pl.col(name).cast(kind) for name, kind in schema.items())

    points = {name: kind for name, kind in records.BENCH_RESULTS.items() if name != "seq"}
    return Template(
        card,
        rows("samples_timed", records.SAMPLES).sort("byte_offset"),
        rows("events", records.EVENTS).sort("byte_offset"),
        rows("access_counts", records.ACCESS_COUNTS),
        rows("bench_points", points).with_columns(seq=pl.lit(1, pl.Int64)),
        rows("bench_windows", records.BENCH_WINDOWS),
    )


def _append(store: Store, play: Play) -> None:
    facts = records.frame([_facts(play)], records.RUN_FACTS)
    access = _moved(play.template.access, play, "minute")
    told = Frames(events=_events(play), run_facts=facts, access_counts=access)
    store.append_all([told], [], more=True)
    each = max(1, _BLOCK // play.template.samples.height)
    for start in range(0, play.repeats, each):
        stop = min(play.repeats, start + each)
        room = play.n_samples - start * play.template.samples.height
        block = Frames(samples=_samples(play, start, stop).head(room))
        store.append_all([block], [], more=True)


def _facts(play: Play) -> dict[str, Any]:
    card, place = play.template.card, play.place
    ended = None if card["ended_at"] is None else card["ended_at"] + play.later + play.longer
    crashed = play.number % 20 == 7
    return {
        **card, "seq": 1, "run_id": place["run_id"], "source_id": place["source_id"],
        "label": f"nightly {play.number}" if play.number % 3 else None,
        "started_at": card["started_at"] + play.later, "ready_at": card["ready_at"] + play.later,
        "ended_at": None if play.is_last else ended, "dp": play.ranks,
        "end_state": None if play.is_last else "crashed" if crashed else card["end_state"],
    }  # fmt: skip


def _moved(rows: pl.DataFrame, play: Play, *times: str) -> pl.DataFrame:
    """Rows of the template as those of this run."""
    named = [pl.lit(play.place[name]).alias(name) for name in _PLACED if name in rows.columns]
    return rows.with_columns(*named, *(pl.col(name) + play.later for name in times))


def _samples(play: Play, start: int, stop: int) -> pl.DataFrame:
    """The plays of these numbers: those of one moment are each of a rank."""
    template = play.template
    size = int(template.samples["byte_offset"].max() or 0) + 1_000  # type: ignore[arg-type]
    lines = int(template.samples["line_no"].max() or 0) + 10  # type: ignore[arg-type]
    nth = pl.col("nth")
    rank = (nth % play.ranks).cast(pl.Int32) if play.ranks > 1 else pl.col("dp_rank")
    numbers = pl.select(nth=pl.int_range(start, stop)).lazy()
    played = numbers.join(_moved(template.samples, play, "ts").lazy(), how="cross")
    # No play is quite like another: the tokens are the same, the time is not.
    faster = 1 + 0.05 * (nth * 0.7 + pl.col("line_no")).sin()
    return (
        played.with_columns(
            pl.col("gen_tok_s") * faster,
            pl.col("interval_s") / faster,
            pl.col("ts") + nth // play.ranks * template.period,
            pl.col("byte_offset") + nth * size,
            pl.col("line_no") + nth * lines,
            dp_rank=rank,
        )
        .select(records.SAMPLES.keys())
        .collect()
    )


def _events(play: Play) -> pl.DataFrame:
    """The template's events, its end at the end; retractions in each of the first plays."""
    ends = pl.col("ts") > pl.lit(play.template.card["last_ts"] + play.later)
    moved = _moved(play.template.events, play, "ts").with_columns(
        pl.col("incident_id").str.replace(".*-", f"{play.place['run_id']}-"),
        ts=pl.when(ends).then(pl.col("ts") + play.longer).otherwise("ts"),
    )
    again = moved.filter(pl.col("kind") == "retraction")
    plays = pl.select(nth=pl.int_range(1, min(play.repeats, 50)))
    repeated = again.join(plays, how="cross").with_columns(
        pl.col("ts") + pl.col("nth") // play.ranks * play.template.period,
        pl.col("byte_offset") + pl.col("nth") * 100_000,
        incident_id=pl.format("{}-{}", "incident_id", "nth"),
    )
    frames = [moved if not play.is_last else moved.filter(~ends), repeated.drop("nth")]
    if play.number % 20 == 7:
        frames.append(_crash(play))
    return pl.concat(frames)


def _crash(play: Play) -> pl.DataFrame:
    place = play.place
    offset = play.n_samples * 500
    at = play.template.card["last_ts"] + play.later + play.longer
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB."
    row = {
        **place, "byte_offset": offset, "line_no": play.n_samples, "ts": at, "kind": "fault",
        "severity": "fault", "title": "CUDA out of memory", "detail": said, "count": 14,
        "evidence": f"[{at:%Y-%m-%d %H:%M:%S}] {said}",
        "incident_id": f"{place['run_id']}-{offset:x}",
    }  # fmt: skip
    return records.frame([row], records.EVENTS)


def _add_bench(store: Store, plays: list[Play]) -> None:
    """The benchmark points of every fourth run that has some."""
    results, windows = [], []
    for play in plays[::4]:
        own = pl.concat_str("bench_id", pl.lit(f"-{play.number}"))
        label = pl.lit(f"nightly {play.number // 40}")
        run = pl.lit(play.place["run_id"])
        results.append(
            play.template.bench.with_columns(
                pl.col("started_at") + play.later, bench_id=own, label=label, run_id=run
            )
        )
        windows.append(
            play.template.windows.with_columns(
                pl.col("started_at", "ended_at") + play.later, bench_id=own, run_id=run
            )
        )
    points = pl.concat(results).select(records.BENCH_RESULTS.keys())

    def work(con: Any) -> bool:
        bench.insert(con, "bench_results", points)
        bench.insert(con, "bench_windows", pl.concat(windows).select(records.BENCH_WINDOWS.keys()))
        return True

    store.transact(work)


def main() -> int:
    """Make the store that the command line names."""
    path, *counts = sys.argv[1:]
    with Store.open(path, bulk=True) as store:
        build(store, *map(int, counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
