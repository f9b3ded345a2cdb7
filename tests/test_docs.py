"""The documents say what there is: every command, every option and every dependency."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import typer
from typer.core import TyperOption

import servescope
from data.lake_place import LakePlace
from tests.command import run

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("dashboard", "parsers", "ingest", "data", "speed", "tests")
COMMANDS = typer.main.get_group(servescope.app)


def requirements(name: str) -> dict[str, str]:
    """Package -> version of a requirements file."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line and not line.startswith(("#", "-r"))]
    assert all("==" in line for line in named), f"{name}: pin every package with =="
    pinned = dict(line.split("==") for line in named)
    return {package.partition("[")[0]: version for package, version in pinned.items()}


def imported(paths: list[Path]) -> set[str]:
    """The top-level packages that these modules import."""
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {*ROOMS, "servescope"}


def code(*rooms: str) -> list[Path]:
    """The modules of these folders."""
    return [path for room in rooms for path in (ROOT / room).rglob("*.py")]


BUILD = {"setuptools", "ziglang"}  # named in pyproject.toml and setup.py


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_dependency_is_explained(name: str) -> None:
    rows = re.findall(
        r"^\| ([\w-]+) \| (.+) \|$",
        (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    explained = {package for package, why in rows if len(why) > 8}
    assert set(requirements(name)) - explained == set()
    both = {**requirements("requirements.txt"), **requirements("requirements-dev.txt")}
    assert explained - {"package"} == set(both) | BUILD


def test_what_is_imported_is_required() -> None:
    provided_by = packages_distributions()
    ours = [ROOT / "servescope.py", *code("dashboard", "parsers", "ingest", "data")]
    needed = {provided_by[package][0].lower() for package in imported(ours)}
    required = set(requirements("requirements.txt"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    optional = {package.split("==")[0] for extra in extras.values() for package in extra}
    assert needed - required - optional == set()
    # What an extra brings is pinned for the tests to the same version.
    pinned = {
        f"{name}=={version}" for name, version in requirements("requirements-dev.txt").items()
    }
    assert {package for extra in extras.values() for package in extra} <= pinned
    # polars hands frames over through pyarrow.
    assert required - needed <= {"pyarrow"}


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    section = r"^## `servescope ([a-z]+).*?$\n(.*?)(?=^## |\Z)"
    sections = dict(re.findall(section, text, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(COMMANDS.commands)
    options = [
        (name, option)
        for name, command in COMMANDS.commands.items()
        for parameter in command.params
        if isinstance(parameter, TyperOption)
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    ]
    assert len(options) > 20
    assert [both for both in options if f"`{both[1]}`" not in sections[both[0]]] == []


def test_every_command_explains_itself() -> None:
    assert [name for name, command in COMMANDS.commands.items() if not command.help] == []


def test_the_help_names_every_kind_of_source() -> None:
    for name in ("up", "ingest"):
        told = " ".join(run(name, "--help").stdout.replace("│", " ").split())
        kinds = (
            "folders",
            "ssh://[user@]host/path",
            "docker://",
            "k8s://",
            "journald://",
            "; - for",
        )
        assert [kind for kind in kinds if kind not in told] == []
    assert "ssh://[user@]host/path" in run("import", "--help").stdout
    assert "[user@]host[:port]" in run("trust", "--help").stdout


def test_the_version_is_told() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"servescope {project['version']}\n")


def test_the_readme_names_only_what_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`servescope ([a-z]+)", text)) <= set(COMMANDS.commands)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"\bmake ([a-z]+)", text)) <= set(targets)
    links = re.findall(r"\]\(((?!https?:)[^)#]+)\)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_units_of_a_fleet_set_what_they_say() -> None:
    text = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    units = [unit for unit in re.findall(r"```ini\n(.*?)```", text, re.DOTALL) if "Exec" in unit]
    assert len(units) == 2
    for unit in units:
        # Where it is not quoted, systemd takes what follows a space for another variable.
        said = [shlex.split(line) for line in re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)]
        variables = dict(word.split("=", 1) for line in said for word in line)
        assert set(variables) == {"SERVESCOPE_STORE", "PGPASSFILE"}
        words = dict(LakePlace.parse(variables["SERVESCOPE_STORE"]).words)
        assert words == {"host": "db", "dbname": "servescope", "user": "collector"}
        command = re.search(r"^ExecStart=\S+/servescope (\w+)", unit, re.MULTILINE)
        assert command is not None
        assert command[1] in COMMANDS.commands
