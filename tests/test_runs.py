"""Where runs begin and end, and what their lines make known of them."""

from __future__ import annotations

import json

import polars as pl

from tests.logs import decode, prefill, read, sglang_boot, stats, text

OVERRIDE = (
    "[2026-05-04 {}] Max running requests is reset to 48 for speculative decoding. You can "
    "override this by explicitly setting --max-running-requests."
)
STOP = [
    "[2026-05-04 {}] INFO:     Shutting down",
    "[2026-05-04 {}] INFO:     Finished server process [7]",
]
CRASH = [
    "[2026-05-04 {}] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/sglang/srt/managers/scheduler.py", line 77, in run',
    "    self.step()",
    "RuntimeError: the pool leaks",
    "",
    "[2026-05-04 {}] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
]


def _at(lines: list[str], time: str) -> list[str]:
    return [line.format(time) for line in lines]


def _runs(lines: list[str]) -> pl.DataFrame:
    facts = read(text(lines)).run_facts.sort("seq")
    return facts.group_by("run_id", maintain_order=True).last()


def test_two_restarts_in_one_file_are_two_runs() -> None:
    lines = [*sglang_boot("10:00:00"), decode("10:00:05"), *_at(STOP, "10:01:00")]
    lines += [*sglang_boot("10:02:00"), decode("10:02:05")]
    batch = read(text(lines))
    runs = _runs(lines)
    assert runs["end_state"].to_list() == ["stopped", "lost"]
    assert batch.samples["run_id"].to_list() == runs["run_id"].to_list()
    assert runs["started_at"].dt.strftime("%H:%M:%S").to_list() == ["10:00:00", "10:02:00"]
    assert runs["ended_at"].dt.strftime("%H:%M:%S").to_list() == ["10:01:00", "10:02:05"]


LAUNCHER = (
    "/opt/sglang/launch_server.py:71: UserWarning: 'python -m sglang.launch_server' is still "
    "supported, but 'sglang serve' is the recommended entrypoint."
)
NO_MODULE = [
    "Traceback (most recent call last):",
    '  File "/opt/sglang/srt/entrypoints/engine.py", line 3, in <module>',
]
NO_MODULE += ["ModuleNotFoundError: No module named 'sgl_kernel'"]


def test_a_start_whose_first_line_has_no_stamp_began_at_its_own_first_stamp() -> None:
    """Not at the last one of the server before, which may have ended the day before."""
    note = "[2026-05-04 {}] a line of no meaning"
    lines = [LAUNCHER, note.format("09:59:52"), *sglang_boot("10:00:00"), decode("10:00:05")]
    lines += [*_at(STOP, "10:01:00"), LAUNCHER, "  warnings.warn(", note.format("17:30:00")]
    lines += [*sglang_boot("17:30:08"), decode("17:30:30")]
    for cuts in ((), range(len(lines))):
        facts = read(text(lines), cuts=cuts).run_facts.sort("seq")
        runs = facts.group_by("run_id", maintain_order=True).last()
        assert runs["started_at"].dt.strftime("%H:%M:%S").to_list() == ["09:59:52", "17:30:00"]
    launched = read(text(lines)).events.filter(title="Launcher started")
    assert launched["ts"].to_list() == [None, None]


def test_a_start_that_prints_no_stamp_has_none_of_its_neighbours() -> None:
    lines = [*sglang_boot("10:00:00"), decode("10:00:05"), *_at(STOP, "10:01:00")]
    lines += [LAUNCHER, *NO_MODULE, LAUNCHER, *sglang_boot("17:30:08"), decode("17:30:30")]
    for cuts in ((), range(len(lines))):
        batch = read(text(lines), cuts=cuts)
        runs = batch.run_facts.sort("seq").group_by("run_id", maintain_order=True).last()
        assert runs["end_state"].to_list() == ["stopped", "crashed", "lost"]
        assert runs["started_at"].dt.strftime("%H:%M").to_list() == ["10:00", None, "17:30"]
        assert batch.events.filter(kind="fault")["ts"].to_list() == [None]


def test_an_override_before_the_args_opens_the_run() -> None:
    lines = [*sglang_boot("10:00:00"), decode("10:00:05"), OVERRIDE.format("10:02:00")]
    lines += [*sglang_boot("10:02:04"), decode("10:02:09")]
    batch = read(text(lines))
    override = batch.events.filter(kind="override").row(0, named=True)
    last = batch.samples.tail(1).row(0, named=True)
    assert override["run_id"] == last["run_id"] != batch.samples["run_id"][0]
    assert "reset to 48" in override["evidence"]


def test_a_run_that_is_killed_and_started_again_is_lost() -> None:
    lines = [*sglang_boot("10:00:00"), decode("10:00:05"), *sglang_boot("10:02:00")]
    assert _runs(lines)["end_state"].to_list() == ["lost", "lost"]


def test_boot_lines_of_one_start_open_one_run() -> None:
    lines = [OVERRIDE.format("10:00:00"), *sglang_boot("10:00:02"), prefill("10:00:03")]
    assert _runs(lines).height == 1


def test_a_file_that_starts_in_the_middle_is_a_run_that_was_ready() -> None:
    lines = [decode("10:00:01"), decode("10:00:02"), decode("10:00:03")]
    batch = read(text(lines))
    assert batch.samples["window"].to_list() == ["mixed", "steady", "steady"]
    assert batch.run_facts["ready_at"].to_list() == [None] * batch.run_facts.height


def test_a_crash_is_one_incident_with_its_cause_first() -> None:
    lines = [*sglang_boot("10:00:00"), decode("10:00:05"), *_at(CRASH, "10:00:09")]
    lines += [*_at(STOP, "10:00:10")]
    batch = read(text(lines))
    faults = batch.events.filter(severity="fault")
    assert faults["title"].to_list() == ["Scheduler hit an exception", "A child process failed"]
    assert faults["detail"][0] == "RuntimeError: the pool leaks"
    assert faults["incident_id"].n_unique() == 1
    assert _runs(lines)["end_state"].to_list() == ["crashed"]


def test_after_an_orderly_stop_nothing_is_a_fault() -> None:
    lines = [*sglang_boot("10:00:00"), decode("10:00:05"), *_at(STOP, "10:00:09")]
    lines += [
        "[2026-05-04 10:00:10] Subprocess detokenizer (pid=9) crashed with exit code -9. "
        "Triggering SIGQUIT for cleanup...",
        "Traceback (most recent call last):",
        '  File "/opt/run.py", line 3, in <module>',
        "KeyboardInterrupt",
    ]
    batch = read(text(lines))
    assert batch.events.filter(severity="fault").height == 0
    assert _runs(lines)["end_state"].to_list() == ["stopped"]


def test_a_bare_traceback_at_start_is_a_fault() -> None:
    lines = [
        "(APIServer pid=7) INFO 05-04 10:00:00 [api_utils.py:286] non-default args: {'port': 8000}",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/entrypoints/launcher.py", line 348, in bind',
        "    sock.bind(addr)",
        "OSError: [Errno 98] Address already in use",
    ]
    batch = read(text(lines))
    fault = batch.events.filter(severity="fault").row(0, named=True)
    assert fault["title"] == "OSError: [Errno 98] Address already in use"
    assert _runs(lines)["end_state"].to_list() == ["crashed"]


def test_the_args_line_is_no_fault_whatever_it_says() -> None:
    lines = sglang_boot(
        "10:00:00", extra=", 'crash_dump_folder': 'Traceback (most recent call last)'"
    )
    batch = read(text([*lines, decode("10:00:05")]))
    assert batch.events.filter(severity="fault").height == 0


def test_the_words_of_a_request_are_no_events_and_no_samples() -> None:
    lines = [*sglang_boot("10:00:00")]
    lines += [
        "[2026-05-04 10:00:02] Receive: obj=GenerateReqInput(rid='a', text='CUDA error: x "
        f"{decode('10:00:01')} torch.OutOfMemoryError: CUDA out of memory')"
    ]
    batch = read(text(lines))
    assert batch.samples.height == 0
    assert batch.events.filter(severity="fault").height == 0


def test_the_card_says_what_the_dump_and_the_pool_line_say() -> None:
    extra = ", 'speculative_algorithm': 'EAGLE3', 'speculative_num_draft_tokens': 4"
    run = _runs([OVERRIDE.format("10:00:00"), *sglang_boot("10:00:01", extra=extra)]).row(
        0, named=True
    )
    assert run["model"] == "org/model"
    assert (run["spec_algorithm"], run["spec_draft_tokens"]) == ("EAGLE3", 4)
    assert run["max_running_requests"] == 256  # the pool line is final
    assert json.loads(run["effective"])["context_len"] == 8192
    assert run["ready_at"] is not None


def test_a_lost_engine_core_ends_a_vllm_run() -> None:
    head = "(APIServer pid=7) ERROR 05-04 10:00:09 [async_llm.py:906]"
    lines = [
        stats("05-04 10:00:05", 50, 2),
        f"{head} AsyncLLM output_handler failed.",
        f"{head} Traceback (most recent call last):",
        f'{head}   File "/opt/vllm/a.py", line 8',
        f"{head} EngineDeadError: see above",
        "INFO:     Shutting down",
    ]
    batch = read(text(lines))
    assert batch.events.filter(severity="fault")["incident_id"].n_unique() == 1
    assert _runs(lines)["end_state"].to_list() == ["crashed"]


def test_a_clock_that_is_set_back_gives_no_negative_duration() -> None:
    times = ["10:00:00", "10:00:10", "09:00:00", "09:00:10"]
    data = text(decode(time) for time in times)
    for cuts in ((), (1,), (1, 2, 3)):
        run = read(data, cuts=cuts).run_facts.sort("seq").tail(1)
        assert run["started_at"].dt.strftime("%H:%M:%S").to_list() == ["10:00:00"]
        assert run["ended_at"].dt.strftime("%H:%M:%S").to_list() == ["10:00:10"]


def test_a_stop_after_the_clock_was_set_back_ends_at_the_latest_time() -> None:
    lines = [*sglang_boot("10:00:00"), decode("10:00:05"), decode("09:00:00")]
    data = text([*lines, *_at(STOP, "09:00:10"), STOP[1].format("11:00:00")])
    for cuts in ((), (4,), (5, 6)):
        run = read(data, cuts=cuts).run_facts.sort("seq").tail(1)
        assert run["end_state"].to_list() == ["stopped"]
        assert run["ended_at"].dt.strftime("%H:%M:%S").to_list() == ["10:00:05"]


def test_an_engine_process_does_not_undo_the_servers_arguments() -> None:
    head = "INFO 05-04 10:00:0"
    args = (
        f"(APIServer pid=7) {head}0 [api_utils.py:286] non-default args: {{'model': 'org/m', "
        "'tensor_parallel_size': 2, 'data_parallel_size': 2}"
    )
    engine = (
        f"(EngineCore_DP0 pid=9) {head}5 [core.py:133] Initializing a V1 LLM engine (v0.32.0) "
        "with config: model='org/m', tensor_parallel_size=2, pipeline_parallel_size=1, "
        "data_parallel_size=1, max_seq_len=2048"
    )
    run = _runs([args, engine, engine]).row(0, named=True)
    assert (run["tp"], run["pp"], run["dp"], run["gpus"]) == (2, 1, 2, 4)
    assert json.loads(run["effective"])["data_parallel_size"] == 2
    alone = _runs([engine]).row(0, named=True)
    assert (alone["tp"], alone["dp"], alone["gpus"]) == (2, 1, 2)
