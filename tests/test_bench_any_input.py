"""Whatever a file holds, reading it gives points, nothing, or one clear line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers.bench.frames import frame, rows
from parsers.bench.read import NoJson, read
from parsers.records import BENCH_RESULTS

CORPUS = Path(__file__).parent / "corpus" / "bench"
TEXTS = {path.name: path.read_text() for path in sorted(CORPUS.iterdir())}
CELLS = [
    "conc", "tok/s", "TTFT p50 (ms)", "C=4:", "prompt 1", "12 ms", "82.5 tok/s", "1,000", "-",
    "n/a",    "\\", "|", "7", "1e999", "speed", "=" * 30,
]  # fmt: skip
SETTINGS = settings(
    max_examples=150, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
ODD: Any = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)  # fmt: skip


def try_read(text: str) -> None:
    try:
        found = read(text)
    except NoJson:
        return
    if found is not None:
        made = frame(rows(found.points, "f"))
        assert dict(made.schema) == BENCH_RESULTS
        for name, kind in BENCH_RESULTS.items():
            if kind.is_float():
                assert made[name].is_finite().all()


@SETTINGS
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_file_cut_and_spliced_anywhere(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    junk = data.draw(st.text(max_size=20))
    try_read(text[:start] + junk + text[end:])


@SETTINGS
@given(st.sampled_from([name for name in TEXTS if name.endswith(".json")]), st.data())
def test_a_document_with_other_kinds_of_values(name: str, data: st.DataObject) -> None:
    document = json.loads(TEXTS[name].split("}\n{")[0] + ("}" if "}\n{" in TEXTS[name] else ""))
    held = document[0] if isinstance(document, list) else document
    for key in data.draw(st.lists(st.sampled_from(sorted(held)), max_size=4)):
        inner = held[key]
        if isinstance(inner, dict) and inner and data.draw(st.booleans()):
            inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(ODD)
        else:
            held[key] = data.draw(ODD)
    try_read(json.dumps(document))


@SETTINGS
@given(
    st.lists(
        st.lists(
            st.sampled_from(CELLS),
            max_size=5,
        ),
        max_size=6,
    ),
    st.sampled_from([" | ", "\t", ",", "  ", " "]),
)  # fmt: skip
def test_tables_and_lines_of_any_cells(cells: list[list[str]], separator: str) -> None:
    try_read("\n".join(separator.join(row) for row in cells))


def serving(**fields: Any) -> str:
    """A result of `vllm bench serve` with some fields changed."""
    known = {
        "date": "20261129-101500", "duration": 20.0, "completed": 40, "num_prompts": 40,
        "total_output_tokens": 9000, "output_throughput": 450.0, "request_throughput": 2.0,
        "mean_ttft_ms": 41.5,
    }  # fmt: skip
    return json.dumps(known | fields)


@pytest.mark.parametrize("field", ["duration", "completed", "mean_ttft_ms", "num_prompts"])
@pytest.mark.parametrize("value", [10**400, 2**63, -(2**63), 1e20, 10**11])
def test_a_number_that_no_column_or_calendar_holds(field: str, value: float) -> None:
    text = serving(**{field: value})
    found = read(text)
    assert found is not None
    assert frame(rows(found.points, "f"))["output_tok_s"].to_list() == [450.0]
    try_read(json.dumps(json.loads(text) | {"server_info": {"tp_size": 1e308, "pp_size": 1e308}}))


@pytest.mark.parametrize("depth", [30, 500, 900])
def test_a_field_nested_deeply_costs_the_point_nothing(depth: int) -> None:
    text = serving()[:-1] + ', "own": ' + '{"a": ' * depth + "1" + "}" * depth + "}"
    found = read(text)
    assert found is not None
    assert "own" not in found.points[0]["extra"]
    assert frame(rows(found.points, "f"))["output_tok_s"].to_list() == [450.0]


@pytest.mark.parametrize("name", sorted(TEXTS))
@pytest.mark.parametrize("value", ["-1e300", "1e308", "1" * 400])
def test_every_number_far_too_large(name: str, value: str) -> None:
    try_read(re.sub(r"(?<=: )[0-9.]+", value, TEXTS[name]))


def test_a_measured_value_below_zero_is_told_as_impossible() -> None:
    found = read(serving(output_throughput=-450.0))
    assert found is not None
    told = found.points[0]["extra"]["impossible"]
    assert told == ["Below zero: output_tok_s. The file is damaged or was changed by hand."]


@pytest.mark.parametrize("field", ["model_id", "label", "own"])
def test_half_a_character_is_no_reason_to_lose_a_point(field: str) -> None:
    found = read(serving(**{field: "m\ud800x"}))
    assert found is not None
    made = frame(rows(found.points, "f"))
    assert made["output_tok_s"].to_list() == [450.0]
    assert "m?x" in made.write_json()
