"""Faults, their effects and their look-alikes: one death is one incident, a stop is none."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from data.store import Store
from tests.logs import decode, read, sglang_boot, stats, text

V = "(EngineCore_DP0 pid=120) ERROR 05-04 10:01:00 [core.py:710] "
API = "(APIServer pid=1) ERROR 05-04 10:01:01 [async_llm.py:480] "
BEFORE_READY = sglang_boot("10:00:00")[:2]
SERVING = [*sglang_boot("10:00:00"), decode("10:00:30", 3)]
VLLM_SERVING = [
    "INFO 05-04 10:00:00 [api_server.py:1971] vLLM API server version 0.11.0",
    "(APIServer pid=1) INFO:     Application startup complete.",
    stats("05-04 10:00:10", 55.5, 3),
]
TRACE = "Traceback (most recent call last):"


def frames(*names: str, package: str = "vllm") -> list[str]:
    """Lines of a traceback's frames."""
    return [f'  File "/opt/{package}/{n}.py", line {i + 11}, in {n}' for i, n in enumerate(names)]


def uncaught(package: str, exception: str) -> list[str]:
    """A traceback that ended a program."""
    first = f'  File "/usr/bin/{package}", line 8, in <module>'
    return [TRACE, first, "    sys.exit(main())", *frames("main", package=package), exception]


def incidents(lines: list[str], tmp_path: Path) -> list[dict[str, Any]]:
    """The view over the events of a log, in the order of the file."""
    with Store.open(tmp_path / "s.duckdb") as store:
        store.append(read(text(lines)), None)
        with store.cursor() as con:
            found = con.sql("SELECT * FROM incidents ORDER BY byte_offset").pl()
            faults = con.sql("SELECT n_faults FROM run_summary").pl()
    rows: list[dict[str, Any]] = found.to_dicts()
    assert faults["n_faults"].sum() == sum(row["class"] == "fault" for row in rows)
    return rows


def faults(lines: list[str]) -> list[str]:
    """Titles of the fault events of a log."""
    return read(text(lines)).events.filter(severity="fault")["title"].to_list()


FATAL = [
    "[2026-05-04 10:01:00] Subprocess scheduler_0 (pid=71) crashed with exit code -9. Bye...",
    "[2026-05-04 10:01:00 TP1] Scheduler watchdog timeout (self.watchdog_timeout=300, "
    "self.soft=False)",
    "[2026-05-04 10:01:00] Child process unexpectedly failed with exitcode=-11. pid=71",
    "[2026-05-04 10:01:00] Prefill out of memory. Try to lower your batch size.",
    "[2026-05-04 10:01:00] Initialization failed. warmup error: no answer",
    "[2026-05-04 10:01:00] SIGQUIT received. signum=None, frame=None. It usually means a fault.",
    "Fatal Python error: Aborted",
    "Segmentation fault (core dumped)",
    "Killed",
    "terminate called after throwing an instance of 'c10::DistBackendError'",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "RuntimeError: NCCL error: unhandled cuda error, version 2.27",
    "[rank1]:[E504 10:01:00.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600011",
    "[2026-05-04 10:01:00] ERROR:    [Errno 98] error while attempting to bind on address "
    "('127.0.0.1', 30000): address already in use",
]


@pytest.mark.parametrize("line", FATAL, ids=lambda line: line[:60])
def test_what_ends_an_sglang_server(line: str) -> None:
    assert len(faults([*SERVING, line])) == 1


@pytest.mark.parametrize(
    "line",
    [
        f"{V}EngineCore encountered a fatal error.",
        f"{V}EngineCore failed to start.",
        f"{API}AsyncLLM output_handler failed.",
        f"{API}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        f"{V}Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
        f"{V}Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.",
        f"{V}Timed out waiting for engine core processes to start. It took over 600 s",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed: {}",
    ],
    ids=lambda line: line[57:110],
)
def test_what_ends_a_vllm_server(line: str) -> None:
    assert len(faults([*VLLM_SERVING, line])) == 1


HARMLESS = [
    "[2026-05-04 10:01:00] server_args={'crash_on_nan': 'Traceback (most recent call last)', "
    "'note': 'torch.OutOfMemoryError: CUDA out of memory', 'x': 'SIGQUIT received'}",
    "[2026-05-04 10:01:00] Global server args updated! ServerArgs(note='CUDA error: x')",
    '[2026-05-04 10:01:00] INFO:     127.0.0.1:5 - "GET /Traceback/EngineDeadError HTTP/1.1" 404 '
    "Not Found",
    "gpu-1:71:90 [0] NCCL INFO Channel 00 : NCCL error: none, Killed 0",
    "[2026-05-04 10:01:00] FutureWarning: the name is deprecated; CUDA out of memory is not it",
    "[2026-05-04 10:01:00] Ignore import error when loading sglang.srt.models.x: name 'T'",
    "[2026-05-04 10:01:00 TP0] Decode out of memory happened. #retracted_reqs: 2, "
    "#new_token_ratio: 0.25 -> 0.50",
    "[2026-05-04 10:01:00 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3, "
    "#new_token_ratio: 0.11 -> 0.43",
    "[2026-05-04 10:01:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, "
    "self.soft=True)",
    "[2026-05-04 10:01:00] Watchdog DetokenizerManager initialized.",
    "[2026-05-04 10:01:00] Receive: obj=GenerateReqInput(rid='a', text='Traceback (most recent "
    "call last): torch.OutOfMemoryError: CUDA out of memory')",
    "If out-of-memory error occurs during cudagraph capture, consider decreasing the batch size",
    "[2026-05-04 10:01:00] The process was Killed by nobody",
]


@pytest.mark.parametrize("line", HARMLESS, ids=lambda line: line[21:80])
def test_words_that_frighten_are_no_fault(line: str) -> None:
    assert faults([*SERVING, line, decode("10:01:10")]) == []
    assert faults([*BEFORE_READY, line]) == []


def harmless(lines: list[str]) -> list[dict[str, Any]]:
    """Events that say why words of a fault are none."""
    found: list[dict[str, Any]] = read(text(lines)).events.filter(kind="harmless").to_dicts()
    return found


def test_words_of_a_fault_among_the_arguments_are_told_with_their_place() -> None:
    secret = "hunter2-hunter2-hunter2"
    boot = sglang_boot(
        "10:00:00", extra=f", 'api_key': '{secret}', 'stop_word': 'a Traceback (most recent'"
    )
    (told,) = harmless([*boot, decode("10:00:05")])
    assert told["title"] == "“Traceback” in the argument stop_word"
    assert (told["severity"], told["count"]) == ("info", 1)
    assert "a Traceback (most recent" in told["evidence"]
    assert secret not in told["evidence"]
    assert boot[told["line_no"] - 1].count("stop_word") == 1


def test_words_of_requests_are_counted_and_never_quoted() -> None:
    asked = "[2026-05-04 10:01:00] Receive: obj=GenerateReqInput(text='Killed: CUDA error: x')"
    (told,) = harmless([*SERVING, asked, asked, asked])
    assert (told["title"], told["count"]) == ("“Killed” in the text of a request", 3)
    assert told["evidence"] is None


STOPS = [
    ["[2026-05-04 10:01:00] SIGTERM received. signum=15 frame=None. Draining requests"],
    ["[2026-05-04 10:01:00] Gracefully exiting... Remaining number of requests 0."],
    ["[2026-05-04 10:01:00] INFO:     Shutting down"],
    [f"{V}[shutdown] APIServer: trigger received signal 15"],
    ["^CINFO:     Shutting down"],
    [TRACE, *frames("run_busy_loop"), "KeyboardInterrupt: terminated"],
    [TRACE, '  File "/usr/bin/vllm", line 8, in <module>', *frames("main"), "KeyboardInterrupt"],
    ["[2026-05-04 10:01:00] Subprocess scheduler_0 (pid=71) crashed with exit code -15. Bye"],
    [f"{V}Worker proc VllmWorker-1 died unexpectedly (exit code: -15), shutting down executor."],
]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop[-1][:70])
def test_what_follows_an_orderly_stop_is_its_effect(stop: list[str], tmp_path: Path) -> None:
    is_vllm = "EngineCore" in stop[0] or "vllm" in "".join(stop)
    engine = VLLM_SERVING if is_vllm else SERVING
    after = [
        f"{API}AsyncLLM output_handler failed.",
        f"{API}{TRACE}",
        *(API + frame for frame in frames("output_handler")),
        f"{API}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        TRACE,
        *frames("wait"),
        "asyncio.exceptions.CancelledError",
        "[2026-05-04 10:01:03] Subprocess scheduler_1 (pid=72) crashed with exit code -15. Bye",
    ]
    rows = incidents([*engine, *stop, *after], tmp_path)
    assert [row["class"] for row in rows] == ["stop"]
    assert rows[0]["severity"] == "info"
    states = read(text([*engine, *stop, *after])).run_facts["end_state"].to_list()
    assert states[-1] == "stopped"


def test_a_death_is_one_incident_with_its_root_first(tmp_path: Path) -> None:
    """Ranks and processes tell of one death for a long time."""
    root = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    death = [
        f"{V}EngineCore encountered a fatal error.",
        f"{V}{TRACE}",
        *(V + frame for frame in frames("run", "step", "forward")),
        V + root,
    ]
    effects = [
        f"{API}AsyncLLM output_handler failed.",
        f"{API}{TRACE}",
        *(API + frame for frame in frames("output_handler")),
        f"{API}vllm.v1.engine.exceptions.EngineDeadError: See stack trace (above).",
    ]
    ended = ["(APIServer pid=1) INFO:     Shutting down"]
    (row,) = incidents([*VLLM_SERVING, *death, *effects * 40, *ended], tmp_path)
    assert (row["class"], row["severity"], row["title"]) == ("fault", "fault", root)
    assert (row["frame"], row["rank"]) == ("forward.py:13 in forward", "EngineCore_DP0 pid=120")
    assert row["count"] > 80
    data = text([*VLLM_SERVING, *death])
    assert data[row["byte_offset"] :].decode().startswith(f"{V}{TRACE}")
    assert row["line_no"] == len(VLLM_SERVING) + 2
    events = read(text([*VLLM_SERVING, *death, *effects * 40])).events
    assert events.filter(severity="fault").height < 10


def test_a_root_that_is_printed_after_its_effect_stands_first(tmp_path: Path) -> None:
    lines = [
        f"{API}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "(EngineCore_DP0 pid=120) " + TRACE,
        *("(EngineCore_DP0 pid=120) " + frame for frame in frames("lower")),
        "(EngineCore_DP0 pid=120) torch._inductor.exc.InductorError: a pass failed",
    ]
    (row,) = incidents([*VLLM_SERVING, *lines], tmp_path)
    assert row["title"] == "torch._inductor.exc.InductorError: a pass failed"


def test_tracebacks_of_two_ranks_mixed_line_by_line(tmp_path: Path) -> None:
    def lines(rank: int, exception: str) -> list[str]:
        head = f"(Worker_TP{rank} pid={rank}) ERROR 05-04 10:01:00 [multiproc.py:470] "
        whole = ["WorkerProc hit an exception.", TRACE, *frames("load", f"rank{rank}"), exception]
        return [head + line for line in whole]

    one, other = lines(0, "ValueError: bad zero"), lines(1, "ValueError: bad one")
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    events = read(text([*VLLM_SERVING[:1], *mixed])).events.filter(severity="fault")
    assert events["title"].to_list() == ["ValueError: bad zero", "ValueError: bad one"]
    assert events["data"].str.json_path_match("$.frame").to_list() == [
        "rank0.py:12 in rank0", "rank1.py:12 in rank1",
    ]  # fmt: skip
    assert events["incident_id"].n_unique() == 1


@pytest.mark.parametrize(
    ("package", "exception"),
    [
        ("sglang", "OSError: org/none is not a local folder and is not a valid model"),
        ("vllm", "OSError: [Errno 98] Address already in use"),
        ("sglang", "ModuleNotFoundError: No module named 'kernels'"),
    ],
)
def test_a_bare_traceback_is_a_start_that_failed(
    package: str, exception: str, tmp_path: Path
) -> None:
    lines = ["/usr/lib/x.py:9: FutureWarning: old", *uncaught(package, exception)]
    (row,) = incidents(lines, tmp_path)
    assert (row["class"], row["title"]) == ("fault", exception)
    batch = read(text(lines))
    assert batch.run_facts["engine"].to_list()[-1] == package
    assert batch.run_facts["end_state"].to_list()[-1] == "crashed"


def test_a_client_that_dies_in_the_servers_log_ends_no_server() -> None:
    batch = read(text([*SERVING, *uncaught("client", "ValueError: no"), decode("10:02:00")]))
    assert batch.events.filter(severity="fault").height == 0
    assert batch.run_facts["end_state"].to_list()[-1] == "lost"


def test_a_traceback_of_another_program_is_no_run() -> None:
    batch = read(text(uncaught("client", "ValueError: no")))
    assert (batch.events.height, batch.run_facts.height) == (0, 0)


REFUSED = "vllm.exceptions.VLLMValidationError: This model's maximum context length is 4096 tokens"


def test_a_400_with_a_traceback_is_the_clients(tmp_path: Path) -> None:
    head = "(APIServer pid=1) ERROR 05-04 10:00:20 [serving_chat.py:205] "
    refused = [
        f"{head}Error in preprocessing prompt inputs",
        f"{head}{TRACE}",
        *(head + frame for frame in frames("create_chat_completion", "preprocess")),
        head + REFUSED,
        '(APIServer pid=1) INFO:     10.0.0.9:5 - "POST /v1/chat/completions HTTP/1.1" 400 Bad',
    ]
    rows = incidents([*VLLM_SERVING, *refused * 3], tmp_path)
    assert {row["class"] for row in rows} == {"client_error"}
    assert sorted(row["count"] for row in rows) == [3, 9]
    assert {row["severity"] for row in rows} == {"info"}


def test_an_incident_lasts_up_to_its_last_line(tmp_path: Path) -> None:
    """However many lines of it are read at once. Each of its tracebacks is two lines of it."""
    uncaught = [TRACE, *frames("run"), "RuntimeError: CUDA error: out of memory"]
    times = ["10:00:20", "10:00:21", "10:00:21", "10:00:22"]
    lines = [line for time in times for line in (f"[2026-05-04 {time}] a line", *uncaught)]
    spans = set()
    for name, cuts in (("whole", range(0)), ("pieces", range(len(lines)))):
        with Store.open(tmp_path / f"{name}.duckdb") as store:
            store.append(read(text([*SERVING, *lines]), cuts), None)
            with store.cursor() as con:
                spans |= set(con.sql("SELECT first_ts, last_ts, count FROM incidents").fetchall())
    assert spans == {(datetime(2026, 5, 4, 10, 0, 20), datetime(2026, 5, 4, 10, 0, 22), 8)}


def test_py_spy_that_is_missing_hides_nothing(tmp_path: Path) -> None:
    missing = "FileNotFoundError: [Errno 2] No such file or directory: 'py-spy'"
    dump = ["Thread 0x7f (most recent call first):", '  File "/opt/a.py", line 3 in wait'] * 20
    watchdog = FATAL[1]
    assert faults([*BEFORE_READY, TRACE, *frames("dump"), missing]) == []
    (row,) = incidents([*SERVING, watchdog, *dump, TRACE, *frames("dump"), missing], tmp_path)
    assert (row["title"], row["rank"]) == ("Watchdog timeout", "TP1")


def test_retractions_of_one_spell_are_one_incident(tmp_path: Path) -> None:
    def retract(time: str, n: int) -> str:
        return (
            f"[2026-05-04 {time} TP0] KV cache pool is full. Retract requests. #retracted_reqs: "
            f"{n}, #new_token_ratio: 0.11 -> 0.43"
        )

    times = ["10:01:00", "10:05:00", "10:14:00", "10:40:00"]
    rows = incidents([*SERVING, *(retract(t, i + 1) for i, t in enumerate(times))], tmp_path)
    assert [(row["class"], row["severity"], row["count"]) for row in rows] == [
        ("retraction", "warning", 3), ("retraction", "warning", 1),
    ]  # fmt: skip
    assert rows[0]["last_ts"].minute == 14


def test_a_stall_is_no_fault(tmp_path: Path) -> None:
    line = (
        "(EngineCore_DP0 pid=120) INFO 05-04 10:0{}:00 [shm_broadcast.py:466] No available shared "
        "memory broadcast block found in 60 seconds. This typically happens when it compiles."
    )
    rows = incidents([*VLLM_SERVING, *(line.format(i) for i in range(1, 6))], tmp_path)
    assert [(row["class"], row["count"]) for row in rows] == [("stall", 5)]


def test_failed_requests_are_counted_by_status_and_path(tmp_path: Path) -> None:
    def ask(path: str, status: int) -> str:
        return f'INFO:     10.0.0.9:5 - "POST {path} HTTP/1.1" {status} X'

    asked = [ask("/v1/completions", 500)] * 7 + [ask("/v1/completions?key=Zk9canary", 400)] * 2
    asked += [ask("/health", 503)] * 9 + [ask("/v1/completions", 200)] * 30
    rows = incidents([*VLLM_SERVING, *asked], tmp_path)
    assert sorted((row["class"], row["severity"], row["count"]) for row in rows) == [
        ("client_error", "info", 2), ("server_error", "warning", 7),
    ]  # fmt: skip
    batch = read(text([*VLLM_SERVING, *asked]))
    assert "canary" not in batch.events.write_csv() + batch.access_counts.write_csv()
    with Store.open(tmp_path / "t.duckdb") as store:
        store.append(batch, None)
        with store.cursor() as con:
            counts = con.sql(
                "SELECT path, status, is_health, n FROM request_counts ORDER BY n DESC"
            ).fetchall()
    assert counts == [
        ("/v1/completions", 200, False, 30), ("/health", 503, True, 9),
        ("/v1/completions", 500, False, 7), ("/v1/completions", 400, False, 2),
    ]  # fmt: skip


def test_a_server_that_goes_on_and_dies_again_had_two_faults() -> None:
    lines = [*SERVING, FATAL[10], decode("10:02:00", 3), decode("10:02:10", 3), FATAL[0]]
    events = read(text(lines)).events.filter(severity="fault")
    assert events["incident_id"].n_unique() == 2
