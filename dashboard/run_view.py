"""The blocks of a run's page: who it is, what it reached, what happened, how it is set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import bench_view, sentences, words
from dashboard.source_view import ENGINES
from data import configs
from data.findings.model import Finding
from data.names import tame
from data.run_data import RunData
from data.setting_groups import GROUPS, group_of
from data.settings import Setting

_ENDS: Final = {
    "stopped": "stopped in order",
    "crashed": "crashed",
    "lost": "its log ends without a stop",
}
_LEVELS: Final = {
    "fault": (st.error, ":material/error:"),
    "warning": (st.warning, ":material/warning:"),
    "info": (st.info, ":material/info:"),
}


def identity(card: Mapping[str, Any]) -> str:
    """Which server this was and how it ended, in a sentence."""
    engine = ENGINES.get(card["engine"], card["engine"] or "a server")
    name = f"{engine} {card['engine_version'] or ''}".strip()
    model = f" with {str(card['model']).rsplit('/', 1)[-1]}" if card["model"] else ""
    sizes = [f"{n} {card[key]}" for key, n in (("tp", "TP"), ("dp", "DP"), ("pp", "PP"))
             if (card[key] or 1) > 1]  # fmt: skip
    on = f" on {card['hardware']}" if card["hardware"] else ""
    parts = [f"{name}{model}{on}", *sizes, speculation(card)]
    state = card["end_state"] or "running"
    lasted = "" if card["duration_s"] is None else f" after {words.duration(card['duration_s'])}"
    ended = f"{_ENDS[state]}{lasted}" if state in _ENDS else f"running since {_start(card)}"
    faults = words.counted(card["n_faults"], "fault")
    label = f"{tame(card['label'])}: " if card["label"] else ""
    return f"{label}{', '.join(parts)}; {ended}, {faults}."


def speculation(card: Mapping[str, Any]) -> str:
    """The method and its draft tokens, as the engine's own argument counts them."""
    if card["spec_algorithm"] is None:
        return "no speculation"
    drafts = card["spec_draft_tokens"]
    return str(card["spec_algorithm"]) + (
        f" with {drafts} draft tokens" if drafts is not None else ""
    )


def by_minute(until: datetime) -> str:
    """That a run has only per-minute values up to a moment."""
    return (
        f"Up to {words.moment(until)} only per-minute values are kept: the curves show minutes; "
        "what needs single lines, such as the highest throughput in 10 s, cannot be measured there."
    )


def in_pieces(samples: int) -> str:
    """That a run is too long to be analysed sample by sample."""
    return (
        f"{samples:,} samples are analysed in pieces of some minutes: sums, weighted figures and "
        "rates at equal running counts are exact; the highest rate is that of a whole piece, and "
        "what needs single lines is not measured."
    )


def _start(card: Mapping[str, Any]) -> str:
    return words.moment(card["started_at"] or card["first_ts"])


def facts(card: Mapping[str, Any]) -> list[sentences.Tile]:
    """What the run reached."""
    return [
        sentences.Tile(
            "Steady, tok/s", words.number(card["steady_tok_s"]), "steady windows",
            "Tokens over seconds of all steady windows: a constant number of running requests. A "
            "dash: not measurable from this log.",
        ),
        sentences.Tile(
            "At 1 request, tok/s", words.number(card["decode_tok_s_at_1"]), "steady windows",
            "The same where exactly one request ran. A dash: not measurable from this log.",
        ),
        sentences.Tile(
            "Accept length, tok", words.number(card["accept_len"]), "weighted by steps",
            "Tokens a verification step yields for a request, bonus token included.",
        ),
        sentences.Tile(
            "Most running", words.whole(card["max_running"]),
            f"queue up to {words.whole(card['max_queued'])}",
            "The most running requests, and the longest queue, that one rank printed.",
        ),
        sentences.Tile(
            "Highest KV use", words.percent(card["max_kv_usage"]),
            words.counted(card["n_retractions"], "retraction"),
            "Share of the KV cache pool in use, of the fullest rank. When it is full, requests "
            "are retracted: taken out of the running batch.",
        ),
        sentences.Tile(
            "Ready after", words.duration(card["ready_after_s"]), "from the first line",
            "From the first line of the start to the ready line.",
        ),
    ]  # fmt: skip


def overrides(run: RunData) -> None:
    """What the server changed of its own settings, in amber, with the lines that say so."""
    events = run.events.filter(pl.col("kind") == "override").rows(named=True)
    if not events:
        return
    said = [f"- {words.plain(_override(event))}" for event in events]
    st.warning("\n".join(["Overridden by the server:", *said]), icon=":material/warning:")
    lines = [f"line {event['line_no']}: {event['evidence']}" for event in events]
    st.code("\n".join(lines), language=None, wrap_lines=True)


def _override(event: Mapping[str, Any]) -> str:
    """One of them: what was given, and what is in effect."""
    data = json.loads(event["data"] or "{}")
    values = [f"{what} {configs.shown(data[key])}" for key, what in
              (("given", "given"), ("effective", "in effect")) if key in data]  # fmt: skip
    title, name = str(event["title"]), data.get("name")
    of = f"{name}: " if name and name not in title else ""  # "true" alone would not say of what
    return title + (f" ({of}{', '.join(values)})" if values else "")


def findings(found: Sequence[Finding]) -> None:
    """What the rules found, the costliest first, each with its evidence."""
    if not found:
        st.text("Nothing stands out in this run.")
    for finding in found:
        show, icon = _LEVELS[finding.severity]
        show(words.plain(finding.sentence), icon=icon)
        st.text(tame(_more(finding)))
        if finding.quote:
            st.code(finding.quote, language=None, wrap_lines=True)


def _more(finding: Finding) -> str:
    """What a finding means, what to try, and where it was seen."""
    parts = [finding.consequence, f"Try: {finding.to_try}."]
    if finding.cost_tok_s:
        parts.append(f"Costs about {words.number(finding.cost_tok_s)} tok/s.")
    if finding.start is not None and finding.end is not None:
        span = f"{words.day_and_clock(finding.start)} to {words.clock(finding.end)}"
        parts.append(f"Seen {span} of the log's clock.")
    if finding.lines:
        noun = "Line" if len(finding.lines) == 1 else "Lines"
        parts.append(f"{noun} {', '.join(map(str, finding.lines))}.")
    return " ".join(part for part in parts if part)


INCIDENTS: Final = {
    "severity": "Severity", "class": "Class", "first_ts": "First", "last_ts": "Last",
    "count": "Lines", "title": "What", "detail": "Detail", "line_no": "Line",
    "evidence": "The line that says so",
}  # fmt: skip


def incidents(rows: pl.DataFrame, run: RunData) -> None:
    """Faults and warnings of the run, one row a cause; its overrides stand above."""
    if rows.is_empty():
        above = run.events.filter(pl.col("kind") == "override").height
        but = " but for the overrides above" if above else ""
        st.text(f"No fault and no warning{but}.")
        return
    st.dataframe(
        rows.select(INCIDENTS.keys()), hide_index=True, placeholder=words.MISSING,
        column_config=INCIDENTS, key="run_incidents",
        alt=words.counted(rows.height, "incident"),
    )  # fmt: skip


def bench(run: RunData) -> None:
    """Benchmark points that this run served."""
    points = run.bench
    if points.is_empty():
        st.text("No benchmark result is joined to this run.")
        return
    shown = points.select(
        concurrency="concurrency", rate="request_rate", output="output_tok_s",
        ttft="ttft_ms_median", tpot="tpot_ms_median",
        accept=pl.coalesce("accept_len", "server_accept_len"), running="server_running_reqs",
        queued="server_queued_reqs", completed="completed", failed="failed", tool="tool",
        dataset="dataset",
    )  # fmt: skip
    st.dataframe(
        shown, hide_index=True, placeholder=words.MISSING, key="run_bench",
        column_order=[name for name in shown.columns if shown[name].count()],
        column_config=bench_view.columns(), alt=words.counted(points.height, "benchmark point"),
    )  # fmt: skip


def settings(run: RunData, *, everything: bool) -> pl.DataFrame:
    """The run's settings by group: about, name, given, argument, effective, changed."""
    order = {name: at for at, name in enumerate(GROUPS)}
    overridden = configs.overridden(run)
    rows = [
        (
            group_of(name), name, _told(one.given), _told(one.resolved), _told(one.effective),
            "⚠ overridden" if name in overridden or _differs(one) else None,
        )
        for name, one in configs.settings(run).items()
        if everything or one.value not in (None, False, "", [], {}, "null", "none", "None")
    ]  # fmt: skip
    schema = dict.fromkeys(SETTINGS, pl.String())
    made = pl.DataFrame(rows, schema=schema, orient="row")
    return made.sort(pl.col("about").replace_strict(order, default=len(order)), maintain_order=True)


SETTINGS: Final = {
    "about": "About", "name": "Setting", "given": "Given by the user", "argument": "Argument",
    "effective": "Printed later", "changed": "Changed",
}  # fmt: skip


def _told(value: Any) -> str | None:
    return None if value is None else configs.shown(value)


def _differs(one: Setting) -> bool:
    """The server said later of this setting something else than its arguments do."""
    return None not in (one.effective, one.resolved) and one.effective != one.resolved


def show_settings(run: RunData) -> None:
    """The arguments, grouped; those that are off only on demand."""
    everything = st.toggle(
        "Show settings that are off or empty too", key="run_all", bind="query-params"
    )
    rows = settings(run, everything=everything)
    if rows.is_empty():
        st.text("The log holds no line with the server's arguments.")
        return
    st.dataframe(
        rows, hide_index=True, placeholder=words.MISSING, column_config=SETTINGS,
        column_order=[name for name in rows.columns if rows[name].count()],
        key="run_settings", height=420, alt=words.counted(rows.height, "setting"),
    )  # fmt: skip


def badges(card: Mapping[str, Any]) -> None:
    """State, baseline and archived, each as a word, and the tags."""
    state = sentences.server(card, None, 0.0)
    if card["end_state"] in _ENDS:
        st.badge(state.word, icon=state.icon, color=state.colour)
    if card["baseline"]:
        st.badge("baseline", icon=":material/flag:", color="blue")
    if card["archived"]:
        st.badge("archived", icon=":material/archive:", color="gray")
    if card["tags"]:
        st.text(f"tags: {', '.join(map(tame, card['tags']))};")
