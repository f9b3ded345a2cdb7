"""The house style that no linter holds: short functions, small modules, types, docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("dashboard", "parsers", "ingest", "data")
GIVEN = {"genlog.py", "re_loop.py"}  # kept byte for byte
OURS = [ROOT / "servescope.py", *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]
HELPERS = [path for room in ("speed", "tests") for path in (ROOT / room).rglob("*.py")]
FUNCTION_LINES = 50
MODULE_LINES = 500
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(paths: list[Path]) -> Iterator[tuple[str, str, ast.Module]]:
    """Name, text and tree of each module."""
    for path in sorted(paths):
        if path.name not in GIVEN:
            text = path.read_text(encoding="utf-8")
            yield str(path.relative_to(ROOT)), text, ast.parse(text)


def functions() -> Iterator[tuple[str, Function]]:
    """Every function and method of the project with its place, nested ones too."""
    for name, _, tree in modules(OURS + HELPERS):
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield f"{name}:{node.lineno} {node.name}", node


def public(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    """What other modules may use: functions, classes and their methods without an underscore."""
    for node in body:
        if isinstance(node, (Function, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def is_stub(node: Function | ast.ClassDef) -> bool:
    """Whether the body is only `...`, as in a protocol."""
    last = node.body[-1]
    return (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Constant)
        and last.value.value is Ellipsis
    )


def test_functions_are_short() -> None:
    lines = {place: (node.end_lineno or 0) - node.lineno + 1 for place, node in functions()}
    assert len(lines) > 100
    assert {place: n for place, n in lines.items() if n > FUNCTION_LINES} == {}


def test_modules_are_small() -> None:
    lines = {name: text.count("\n") for name, text, _ in modules(OURS + HELPERS)}
    assert {name: n for name, n in lines.items() if n > MODULE_LINES} == {}


def test_every_function_has_types() -> None:
    untyped = [
        place
        for place, node in functions()
        if node.returns is None
        or any(
            arg.annotation is None and arg.arg not in ("self", "cls")
            for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        )
    ]
    assert untyped == []


def test_what_is_public_is_explained() -> None:
    silent = []
    for name, _, tree in modules(OURS):
        if tree.body and not ast.get_docstring(tree):
            silent.append(name)
        silent += [
            f"{name}:{node.lineno} {node.name}"
            for node in public(tree.body)
            if not ast.get_docstring(node) and not is_stub(node)
        ]
    assert silent == []


def test_annotations_are_lazy() -> None:
    eager = [
        name
        for name, text, tree in modules(OURS + HELPERS)
        # A package's own file may hold nothing but a docstring.
        if len(tree.body) > 1 and "from __future__ import annotations" not in text
    ]
    assert eager == []
