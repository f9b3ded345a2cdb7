"""The Sources page: test, add, pause, resume, remove; and what of it outlives a restart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import context, settings
from data.errors import SourceError
from data.store import Store
from ingest.config import Remembered, SourceSpec, load
from ingest.probe import probe
from ingest.supervisor import Supervisor
from tests.following import following, state
from tests.growing import append, decodes, sglang_boot
from tests.pages import visit
from tests.waiting import until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(sglang_boot() + decodes(0, 10))
    return path


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    settings.pin()
    with Store.open(tmp_path / "s.duckdb") as store:
        made = Supervisor(store, [], Remembered(store.path))
        made.start()
        context.enter(context.Context(store, made))
        try:
            yield made
        finally:
            made.stop()


def shown(app: AppTest) -> str:
    assert not app.exception, app.exception
    kinds = (app.subheader, app.text, app.caption, app.error, app.warning, app.code, app.info)
    return "\n".join(str(element.value) for kind in kinds for element in kind).replace("\\", "")


def click(app: AppTest, label: str) -> AppTest:
    [button] = [button for button in app.button if button.label == label]
    return button.click().run(timeout=30)


def test_a_source_is_tested_added_paused_resumed_and_removed(
    supervisor: Supervisor, log: Path, tmp_path: Path
) -> None:
    app = visit("sources").run(timeout=30)
    assert "No source is followed." in shown(app)
    app.text_input(key="add_location").set_value(str(log))
    app.text_input(key="add_label").set_value("eagle")
    app.text_input(key="add_tags").set_value("h200, draft")
    click(app, "Test")
    text = shown(app)
    assert f"To be followed: {log}, {log.stat().st_size / 1000:.1f} kB." in text
    assert "SGLang, 1 server start in its beginning." in text
    assert "Decode batch" in text
    assert "canary" not in text
    assert supervisor.status() == []

    click(app, "Add")
    until(lambda: state(supervisor) == "following" and supervisor.status()[0].lines_read == 11)
    app.run(timeout=30)
    assert "1 source: 1 following." in shown(app)
    assert "tags: h200, draft" in shown(app)
    click(app, "Pause")
    assert state(supervisor) == "paused"
    append(log, decodes(10, 5))
    assert load(tmp_path / "s.duckdb.sources.toml") == [
        SourceSpec(str(log), "eagle", None, ("h200", "draft"), paused=True)
    ]
    app.run(timeout=30)
    click(app, "Resume")
    until(lambda: state(supervisor) == "following" and supervisor.status()[0].lines_read == 16)
    app.run(timeout=30)
    click(app, "Remove this source")
    assert supervisor.status() == []
    assert Remembered(tmp_path / "s.duckdb").specs() == []


def test_what_cannot_be_read_is_said(supervisor: Supervisor, tmp_path: Path) -> None:
    app = visit("sources").run(timeout=30)
    for button in ("Test", "Add"):
        click(app, button)
        assert "Give an address first." in shown(app)
    app.text_input(key="add_location").set_value("docker://--privileged")
    assert "is no address; give docker://" in shown(click(app, "Add"))
    app.text_input(key="add_location").set_value(str(tmp_path / "none" / "*.log"))
    assert "no such folder" in shown(click(app, "Add"))


def test_added_sources_are_followed_after_a_restart(tmp_path: Path, log: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        first = Supervisor(store, [], Remembered(store.path))
        first.start()
        first.add(str(log), "kept", "Europe/Berlin")
        with pytest.raises(SourceError, match="is followed already"):
            first.add(str(log))
        first.stop()
        second = Supervisor(store, [SourceSpec(str(tmp_path))], Remembered(store.path))
        assert [status.source_id for status in second.status()] == [str(tmp_path), str(log)]


def test_many_sources_at_once(tmp_path: Path) -> None:
    logs = [tmp_path / "logs" / f"{number}.log" for number in range(12)]
    logs[0].parent.mkdir()
    logs[0].write_bytes(sglang_boot() + decodes(0, 60_000))  # a long one holds nobody up
    for path in logs[1:]:
        path.write_bytes(sglang_boot() + decodes(0, 20))
    with (
        Store.open(tmp_path / "s.duckdb") as store,
        store.cursor() as con,
        following(store, *logs) as supervisor,
    ):
        count = "SELECT count(*), count(DISTINCT source_id) FROM samples"
        until(lambda: con.execute(count).fetchone() == (60_220, 12), 60)
        until(lambda: {s.state for s in supervisor.status()} == {"following"})
        assert {(s.lag_bytes, s.behind_since) for s in supervisor.status()} == {(0, None)}


def test_servescope_toml(tmp_path: Path) -> None:
    path = tmp_path / "servescope.toml"
    path.write_text(
        '[[source]]\nlocation = "logs/*.log"\nlabel = "a"\nzone = "Europe/Berlin"\n'
        'tags = ["h200"]\n[[source]]\nlocation = "ssh://gpu1/x.log"\npaused = true\n'
    )
    assert load(path) == [
        SourceSpec(str(tmp_path / "logs" / "*.log"), "a", "Europe/Berlin", ("h200",)),
        SourceSpec("ssh://gpu1/x.log", paused=True),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[source]]\nlabel = 'x'", "source 1 has no location"),
        ("[[source]]\nlocation = 'x'\ncolour = 'red'", "colour = 'red' is not understood"),
        ("[[source]]\nlocation = 'x'\ntags = 'a'", "tags = 'a' is not understood"),
        ("[[source]]\nlocation = 'x'\nzone = 'Mars/Phobos'", "'Mars/Phobos' is no time zone"),
        ("port = 1", "'port' is not understood"),
        ("[[source", "is no TOML"),
    ],
)
def test_a_wrong_servescope_toml_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "servescope.toml"
    path.write_text(text)
    with pytest.raises(SourceError) as error:
        load(path)
    assert said in str(error.value)
    assert str(error.value).startswith(str(path))


def test_a_look_at_what_is_not_there_yet(tmp_path: Path) -> None:
    report = probe(str(tmp_path / "soon.log"))
    assert (report["name"], report["engine"], report["lines"]) == (None, None, [])


def test_a_name_of_any_bytes_is_remembered(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 \n.log")
    remembered = Remembered(tmp_path / "s.duckdb")
    remembered.keep(SourceSpec(odd, "one"))
    remembered.keep(SourceSpec(str(tmp_path / "plain.log"), paused=True))
    assert [spec.location for spec in remembered.specs()] == [odd, str(tmp_path / "plain.log")]
    remembered.forget(SourceSpec(odd).source_id)
    assert len(remembered.specs()) == 1
