"""Pages run without a browser, and a store whose texts mean harm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import streamlit
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from dashboard import background, context, live_state, picture, run_cache
from data import queries
from data.store import Store
from ingest.supervisor import Supervisor
from parsers import records
from tests.frames import Frames, at

# Each page asks anew which installed packages bring components, for 0.1 s: they stay the same.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
# HTML, Markdown, a formula of a spreadsheet, colours of a terminal, letters from right to left.
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "**bold** [link](javascript:alert(1)) $x^2$ :red[text] | # head",
    '=HYPERLINK("http://evil.example","x")',
    "\x1b[31mred\x1b[0m \u202egnp.exe \u05d0\u05d1\u05d2 \u2028next",
)


_last: list[Store] = []


def forget() -> None:
    """What the pages remember of the one store that a process has."""
    background.settle()
    streamlit.cache_resource.clear()
    run_cache._kept.clear()
    picture._changes.clear()
    picture._drawn.clear()
    live_state._seen.clear()


def visit(page: str) -> AppTest:
    """A page by its name, before it is run for the first time."""
    return AppTest.from_function(_script, default_timeout=120, args=(page,))


def _script(page: str) -> None:
    from importlib import import_module

    import_module(f"dashboard.pages.{page}").page()


def shown(
    page: str,
    store: Store,
    query: Mapping[str, str | list[str]] | None = None,
    *,
    supervisor: Supervisor | None = None,
) -> AppTest:
    """The page of this name over this store, opened with these parameters in its address."""
    if _last != [store]:
        forget()
        _last[:] = [store]
    context.enter(context.Context(store, supervisor or Supervisor(store, [])))
    test = visit(page)
    for name, parameter in (query or {}).items():
        test.query_params[name] = parameter
    test.run()
    assert not test.exception
    return test


def run_of(store: Store, folder: str) -> str:
    """The run of a bundled log, by the folder that it lies in."""
    with store.cursor() as con:
        (run_id,) = queries.find_runs(con, f"{folder}/server.log")
    return run_id


def log_block(test: AppTest) -> dict[str, Any] | None:
    """The log as the page sends it: its lines, and the id of the one that is marked."""
    said = [json.loads(component.proto.json) for component in test.get("bidi_component")]
    return next((data for data in said if "lines" in data), None)


def log_lines(test: AppTest) -> list[dict[str, str]]:
    """The lines of the log as the page sends them: id, no, level, text."""
    block = log_block(test)
    assert block is not None
    found: list[dict[str, str]] = block["lines"]
    return found


def first_line(test: AppTest) -> str:
    """The sentence with the answer."""
    return str(test.subheader[0].value).replace("\\", "")


def write_hostile(store: Store) -> None:
    """Runs, a fault each, whose names and quoted lines are those of HOSTILE."""
    runs, events = [], []
    for number, text in enumerate(HOSTILE):
        run_id = f"run{number}"
        runs.append(
            {"seq": 1, "run_id": run_id, "source_id": f"/logs/{text}", "engine": "sglang",
             "label": text, "model": text, "started_at": at(number), "end_state": "crashed"}
        )  # fmt: skip
        events.append(
            {"run_id": run_id, "source_id": f"/logs/{text}", "file_id": "f", "byte_offset": number,
             "line_no": number, "ts": at(number), "kind": "fault", "severity": "fault",
             "title": text, "detail": text, "evidence": text, "incident_id": f"{run_id}-0",
             "count": 1}
        )  # fmt: skip
    store.append(
        Frames(
            events=records.frame(events, records.EVENTS),
            run_facts=records.frame(runs, records.RUN_FACTS),
        ),
        None,
    )
