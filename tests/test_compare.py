"""The command: what it prints, of files and of runs, in every form."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from data import report
from data.compare import Comparison, Point, bench_points, compare, grouped, verdict
from data.errors import CommandError, ServescopeError, SourceError
from data.findings.rules import findings
from data.run_data import RunData
from data.store import Store
from ingest.commands import Commands
from ingest.comparing import Wanted, compare_all, wanted
from tests import simulator, story
from tests.command import fails, run, up
from tests.growing import decodes, sglang_boot
from tests.simulator import Server

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The four set-ups as LABEL=LOG."""
    folder = tmp_path_factory.mktemp("story")
    for name, lines in story.four().items():
        (folder / f"{name}.log").write_text("\n".join(lines) + "\n")
    for name in story.POINTS:
        (folder / f"{name}+c.jsonl").write_text(story.bench(name))
    return {name: f"{name}={folder / name}.log" for name in story.four()}


def with_bench(logs: dict[str, str], name: str) -> str:
    """One of the set-ups with the results of its client."""
    return f"{logs[name]}+{logs[name].partition('=')[2].removesuffix('.log')}+c.jsonl"


@pytest.fixture(scope="module")
def told(logs: dict[str, str]) -> str:
    """What `compare` says of SGLang's three, the base first."""
    names = [with_bench(logs, name) for name in ("base", "eagle3", "vllm")]
    made = compare_all([*names[:2], logs["custom"], names[2]])
    return report.render(made, "text")


@pytest.mark.parametrize(
    "sentence",
    [
        "max_running_requests 48: not set by the user, lowered by speculation "
        f'("{story.RESET}", line 1); base run 2048 (default)',
        "A speculative step costs 1.67 plain steps and yields 1.65 tokens: "
        "no gain at one stream (0.99 times the base).",
        "Break-even accept_len at one stream: 1.67 (",
        "2.17 for 1.3 times the base",
        "eagle3: accept rate 0.41 as printed counts the bonus token; strict 0.22.",
        "custom: 0.25 is the floor of this version's formula: nothing is accepted.",
        "eagle3 decodes at 0.99 times base at equal running counts (1); one start a side names no "
        "winner below 5%",
        "custom is slower: 0.69 times base",
        "vllm is faster: 1.30 times base",
    ],
)
def test_the_story_is_told(told: str, sentence: str) -> None:
    assert sentence in told


@pytest.mark.parametrize(
    "sentence",
    [
        "But the benchmark gives 0.65 times at concurrency 64; the sides cross between concurrency "
        "16 and 64.",
        "But the benchmark gives 0.36 times at concurrency 64.",
    ],
)
def test_a_verdict_tells_where_the_benchmark_says_the_contrary(told: str, sentence: str) -> None:
    assert sentence in told


def test_the_table_of_the_story(told: str) -> None:
    def row(name: str) -> list[str]:
        line = next(line for line in told.splitlines() if line.startswith(name))
        return line.removeprefix(name).replace("(from the benchmark)", "").split()

    assert row("single stream, tok/s") == ["63.6", "62.9", "44.1", "82.5"]
    assert row("decode at 1 request, tok/s") == ["63.6", "62.9", "44.1", "82.5"]
    best = ["2,370.0", "849.0", "no", "benchmark", "1,536.0"]
    assert row("best benchmark point, tok/s") == best


def test_points_of_benchmarks_are_held_side_by_side(logs: dict[str, str]) -> None:
    made = compare_all([with_bench(logs, name) for name in ("base", "eagle3")])
    points = {point.concurrency: point for point in made.pairs[0].points}
    assert set(points) == {1, 16, 64}
    assert points[64].ratio == pytest.approx(849 / 2370)
    assert points[64].difference_tok_s == pytest.approx(849 - 2370)
    assert points[64].interval is None
    assert points[64].note == "n = 1: no interval"


def test_repeated_points_have_an_interval() -> None:
    def side(*rates: float) -> RunData:
        made, _ = simulator.start(Server(), [2], 9, 1)
        bench = [
            {"bench_id": str(rate), "concurrency": 8.0, "output_tok_s": rate, "completed": 80}
            for rate in rates
        ]
        return simulator.run(made.samples, bench=bench)

    (point,) = bench_points([side(100.0, 102.0, 98.0)], [side(120.0, 118.0)])
    assert point.interval is not None
    assert point.interval.holds(119 / 100)
    assert not point.interval.holds(1.0)
    assert point.interval.kind == "over benchmark points"  # all of one start a side


def test_a_verdict_from_a_benchmark_says_that_the_loads_were_not_alike() -> None:
    def point(**values: Any) -> Point:
        known: dict[str, Any] = {
            "concurrency": 16.0, "request_rate": None, "base": {"output_tok_s": 700.0}, "other": {},
            "ratio": 0.84, "difference_tok_s": -110.0, "interval": None,
            "note": "n = 1: no interval; outputs of 256 tokens against 128",
        }  # fmt: skip
        return Point(**known | values)

    why = "one side has no steady window in its logs"
    assert verdict("a", "b", None, why, [point()]) == (
        "b gives 0.84 times the output of a at concurrency 16 "
        "(n = 1: no interval; outputs of 256 tokens against 128)."
    )
    assert verdict("a", "b", None, why, []) == (
        "b and a cannot be compared: one side has no steady window in its logs."
    )


def test_a_word_in_the_arguments_is_no_fault(logs: dict[str, str]) -> None:
    for name, lines in story.four().items():
        (made,) = simulator.from_text(lines)
        assert [f.rule for f in findings(made) if f.severity == "fault"] == [], name
        assert not (made.events["severity"] == "fault").any()


def test_a_release_that_says_nothing_is_inferred_and_marked() -> None:
    quiet = story.sglang(62.9, cap=48, length=1.65, says_so=False, **story.DRAFT)
    (spec,), (base,) = (simulator.from_text(lines) for lines in (quiet, story.sglang(63.6)))
    cap = compare(grouped([("base", base), ("spec", spec)])).pairs[0].lowered_cap
    assert cap is not None
    assert cap.sentence == (
        "max_running_requests 48: not set by the user, lowered by speculation (inferred from the "
        "two effective values, this version prints no line about it); base run 2048 (default)"
    )


def test_a_cap_that_the_user_set_is_not_called_lowered() -> None:
    chosen = story.sglang(62.9, cap=64, length=1.65, **story.DRAFT | {"max_running_requests": 64})
    (spec,), (base,) = (simulator.from_text(lines) for lines in (chosen, story.sglang(63.6)))
    assert compare(grouped([("base", base), ("spec", spec)])).pairs[0].lowered_cap is None


def test_real_logs_show_the_lowered_cap() -> None:
    names = [f"{name}={SAMPLES}/sglang-0.5.23-{name}/server.log" for name in ("base", "ngram")]
    assert (
        'max_running_requests 48: not set by the user, lowered by speculation ("Max running '
        "requests is reset to 48 for speculative decoding. You can override this by explicitly "
        'setting --max-running-requests.", line 11); base run 4096 (default)'
    ) in report.render(compare_all(names), "text")


def test_only_what_differs_is_listed(told: str) -> None:
    part = told.split("eagle3 against base")[1].split("custom against base")[0]
    listed = part.split("Settings that differ")[1].splitlines()
    names = {line.split()[0] for line in listed[4:] if line}
    assert names == {"speculative_draft_model_path", "max_running_requests", *story.DRAFT}


def test_json_and_csv_hold_the_numbers(logs: dict[str, str]) -> None:
    asked = (logs["base"], logs["eagle3"])
    whole = json.loads(report.render(compare_all(asked), "json"))
    (pair,) = whole["pairs"]
    (row,) = pair["speculation"]
    assert row["cost"] == pytest.approx(1.668, abs=0.01)
    assert pair["lowered_cap"]["base_cap"] == 2048
    table = pl.read_csv(io.StringIO(report.render(compare_all(asked), "csv")))
    assert table.columns == list(report.ROWS)
    assert table["source"].to_list() == ["log_combined", "log"]
    assert table["ratio"][1] == pytest.approx(62.9 / 63.6, rel=0.002)


def test_markdown_cannot_be_broken_by_a_log() -> None:
    odd = story.sglang(63.6, page_size="a|b`<script>\n# x")
    (base,), (other,) = (simulator.from_text(lines) for lines in (story.sglang(63.6), odd))
    text = report.render(compare(grouped([("base", base), ("x`*", other)])), "md")
    assert "<script>" not in text
    assert [line for line in text.splitlines() if line.startswith("# x")] == [
        line for line in text.splitlines() if line.startswith("# x`")
    ]


def test_negative_differences_in_markdown_are_plain_numbers(logs: dict[str, str]) -> None:
    asked = [with_bench(logs, name) for name in ("base", "eagle3")]
    text = report.render(compare_all(asked), "md")
    assert "| -1,521.0 |" in text
    assert "| '-" not in text


def simulated(n: int, server: Server, seed: int) -> list[list[str]]:
    """The logs of several starts of one configuration."""
    load = [simulator.Load(1, 4, output=900)]
    return [simulator.serve(server, load, seed + i).lines for i in range(n)]


def test_starts_of_one_configuration_are_one(tmp_path: Path) -> None:
    sides = {"plain": Server(), "paged": Server(step_ms=14.0, args={"page_size": 64})}
    for name, server in sides.items():
        for i, lines in enumerate(simulated(3, server, 7)):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / f"{i}.log").write_text("\n".join(lines) + "\n")
    made = compare_all([f"{name}={tmp_path / name}" for name in sides])
    assert [summary.starts for summary in made.summaries] == [3, 3]
    (pair,) = made.pairs
    assert pair.verdict.startswith("paged is slower: 0.7")
    assert ", 3 starts against 3 (" in pair.verdict
    assert "over 3 starts" in made.summaries[0].rates["decode_tok_s_at_1"].note
    assert "over starts 95 % interval" in pair.verdict


def test_a_label_may_hold_an_equals_sign(tmp_path: Path) -> None:
    log = tmp_path / "tp=8.log"
    log.touch()
    assert wanted(f"tp=8=a={log}") == Wanted(f"tp=8=a={log}", "tp=8=a", log)
    assert wanted(str(log)) == Wanted(str(log), None, log)
    with pytest.raises(SourceError, match="check the path behind a="):
        wanted("a=gone.log")


def test_a_log_that_was_just_written_is_read_to_its_end(tmp_path: Path) -> None:
    names = [tmp_path / "a.log", tmp_path / "b.log"]
    for path in names:
        path.write_bytes(sglang_boot(model=f"org/{path.stem}") + decodes(0, 1).rstrip(b"\n"))
    made = compare_all([str(path) for path in names])
    assert [group.runs[0].windows.height for group in made.groups] == [1, 1]


def test_labels_keep_apart_what_has_the_same_arguments() -> None:
    (made,) = simulator.from_text(story.sglang(63.6))
    assert [g.label for g in grouped([("a", made), ("b", made)])] == ["a", "b"]
    assert [g.label for g in grouped([(None, made), (None, made)])] == [made.name]
    names = {str(made.card["run_id"]): "x/server.log · 15:00"}
    assert [g.label for g in grouped([(None, made)], names)] == ["x/server.log · 15:00"]
    # Of two starts together none is named.
    assert [g.label for g in grouped([(None, made), (None, made)], names)] == [made.name]


def test_runs_of_the_store_are_compared_also_while_it_is_up(
    logs: dict[str, str], tmp_path: Path
) -> None:
    store = tmp_path / "store.duckdb"
    paths = [logs[name].partition("=")[2] for name in ("base", "eagle3")]
    for path in paths:
        assert run("import", path, "--store", store, "--label", Path(path).stem).returncode == 0
    own = run("compare", "base", "eagle3", "--store", store)
    assert "A speculative step costs 1.67 plain steps" in own.stdout
    shutil.copy(paths[0], tmp_path / "live.log")
    with up(tmp_path / "live.log", "--store", store):
        asked = run("compare", "base", "eagle3", "--store", store)
        assert asked.stdout == own.stdout
        mixed = run("compare", "base", logs["custom"], "--store", store)
        assert "custom is slower" in mixed.stdout
        told = run("findings", "eagle3", "--store", store)
    assert "A speculative step costs 1.67 plain steps" in told.stdout
    assert "max_running_requests 48: not set by the user" in told.stdout


def test_findings_as_json_and_markdown(logs: dict[str, str], tmp_path: Path) -> None:
    store = tmp_path / "store.duckdb"
    with Store.open(store) as opened:
        commands = Commands(opened)
        with pytest.raises(CommandError, match="no runs yet"):
            commands.findings(None, "text")
        commands.import_logs([logs["custom"].partition("=")[2]], None, None)
        found = json.loads(commands.findings(None, "json"))
        text = commands.findings(None, "md")
    assert {row["rule"] for row in found} >= {"rate_at_floor", "cap_lowered_by_speculation"}
    assert {Path(row["source_id"]).name for row in found} == {"custom.log"}
    assert "- **warning**: Accept rate 0.25 is the floor" in text


def test_what_cannot_be_compared_is_one_line(logs: dict[str, str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_text("nothing of a server\n")
    for names, words in (
        (["a=/nowhere/x.log", logs["base"]], "no such file"),
        ([logs["base"]], "give another one to compare with"),
        ([logs["base"], str(empty)], "nothing to compare"),
    ):
        with pytest.raises(ServescopeError, match=words):
            compare_all(names)
    store = ("--store", tmp_path / "store.duckdb")
    Store.open(store[1]).close()
    assert "no run is called 'nobody'" in fails("compare", logs["base"], "nobody", *store)
    said = "servescope: /nope/x.log: no such file, and no run is called so"
    assert fails("compare", "/nope/x.log", logs["base"], *store) == said


def test_files_need_no_store(logs: dict[str, str], tmp_path: Path) -> None:
    store = tmp_path / "none.duckdb"
    asked = (logs["base"], logs["eagle3"], "--store", store, "--format", "csv")
    assert run("compare", *asked).stdout.startswith("baseline,label,source")
    assert not store.exists()


def test_a_comparison_is_made_of_frames_alone() -> None:
    """Usable from Python and the pages: no store, no files."""
    base, other = simulator.start(Server(), [1], 30, 1)[0], simulator.start(Server(), [1], 30, 2)[0]
    made = compare(grouped([("a", base), ("b", other)]))
    assert isinstance(made, Comparison)
    assert made.pairs[0].match is not None
