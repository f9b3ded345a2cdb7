"""Whether a question can be ended at any time.

DuckDB looks for an interrupt between the pieces of its work (2,048 rows), not inside of one, and
not while it plans. So no value may become so long, and no plan so large, that one step takes
minutes: judged on the parsed statement, with bounds that a question over a few views is far from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from data.errors import CommandError

MAX_TABLES: Final = 50  # with every name of WITH in place of what it stands for
MAX_REFERENCES: Final = 10_000  # columns that one item of a SELECT is made of
MAX_STARS: Final = 4  # beside the first of each SELECT: nested, each doubles the columns
# Their result can be longer than what goes in.
GROWING: Final = frozenset({
    "||", "concat", "concat_ws", "list_value", "list_pack", "list_concat", "list_cat",
    "list_append", "list_prepend", "list_zip", "struct_pack", "row", "map", "flatten",
    "regexp_escape", "list_transform", "list_apply", "apply",
})  # fmt: skip
# They make one value of all rows, and of how many arguments on they do.
_LONG: Final = {
    "list": 1, "array_agg": 1, "string_agg": 1, "group_concat": 1, "listagg": 1, "histogram": 1,
    "max": 2, "min": 2, "arg_max": 3, "arg_min": 3, "argmax": 3, "argmin": 3,
    "arg_max_null": 3, "arg_min_null": 3, "max_by": 3, "min_by": 3,
}  # fmt: skip

Node = Mapping[str, Any]


def check_cost(statement: Node) -> None:
    """CommandError for a statement that DuckDB might not let itself be interrupted in."""
    for node in _all(statement):
        if node.get("class") == "LAMBDA":
            _check_lambda(node)
        if node.get("type") == "RECURSIVE_CTE_NODE" and any(map(_grows, _all(node["right"]))):
            raise CommandError("sql: a recursive WITH may not join texts or lists")
    try:
        _tables(statement["node"], {}, True)
    except RecursionError as error:
        raise CommandError("sql: the question is nested too deeply") from error
    stars = sum(_stars(node) for node in _all(statement) if node.get("type") == "SELECT_NODE")
    if stars > MAX_STARS:
        raise CommandError(f"sql: {stars} more * than one a SELECT, {MAX_STARS} are allowed")


def _tables(query: Node, known: Mapping[str, int], outermost: bool) -> int:
    """How many tables a query reads; CommandError where it or a part of it is too large.

    Args:
        known: how many the queries read that WITH has given names to.
        outermost: whether its rows are those of the answer.
    """
    names = dict(known)
    for entry in query["cte_map"]["map"]:
        names[entry["key"].lower()] = _tables(entry["value"]["query"]["node"], names, False)
    _check_long(query, outermost)
    _check_references(query.get("select_list", ()))
    alike = outermost and query["type"] == "SET_OPERATION_NODE"
    count = 0
    for node in _own([part for name, part in query.items() if name != "cte_map"]):
        if "cte_map" in node:
            count += _tables(node, names, alike)
        elif node.get("type") == "BASE_TABLE":
            count += names.get(node["table_name"].lower(), 1)
        elif node.get("type") == "TABLE_FUNCTION":
            count += 1
    if count > MAX_TABLES:
        raise CommandError(
            f"sql: it reads more than {MAX_TABLES} tables, each counted as often as it is named"
        )
    return max(1, count)


def _check_references(items: Iterable[Node]) -> None:
    """An item of a SELECT may name the items before it, each of which is put in place."""
    named: dict[str, int] = {}
    for item in items:
        columns = [node["column_names"] for node in _own(item) if node.get("class") == "COLUMN_REF"]
        count = sum(named.get(path[-1].lower(), 1) for path in columns)
        if count > MAX_REFERENCES:
            raise CommandError(
                f"sql: a column is made of more than {MAX_REFERENCES:,} others, names put in place"
            )
        if item.get("alias"):
            named[item["alias"].lower()] = max(count, 1)


def _check_long(query: Node, outermost: bool) -> None:
    """One value made of all rows may be shown, and not be copied to many rows or lengthened."""
    parts = [part for name, part in query.items() if name not in ("cte_map", "from_table")]
    above = list(_own(parts, skip=_is_long))
    long = next(filter(_is_long, above), None)
    below = next(filter(_is_long, _own(query.get("from_table"))), None)
    window = next(
        (node for node in above if node.get("class") == "WINDOW" and _makes_long(node)), None
    )
    odd = below or window or (None if outermost else long)
    if odd is not None:
        raise CommandError(
            f"sql: {odd['function_name']} of many rows is allowed in the outermost SELECT only, "
            "without OVER"
        )
    if long is not None and any(_grows(node) or _spreads(node) for node in above):
        raise CommandError(
            f"sql: beside {long['function_name']} of many rows nothing may be joined or unnested"
        )


def _check_lambda(node: Node) -> None:
    """What is done with each element of a list may take and give only something small."""
    own = {ref["column_names"][0] for ref in _all(node["lhs"]) if ref.get("class") == "COLUMN_REF"}
    for part in _all(node["expr"]):
        nested = part.get("class") in ("LAMBDA", "SUBQUERY")
        other = part.get("class") == "COLUMN_REF" and part["column_names"][0] not in own
        joins = _grows(part) and part["function_name"].lower() != "struct_pack"
        if nested or other or joins:
            raise CommandError(
                "sql: a lambda may use its own element only, and not join texts or lists"
            )


def _stars(select: Node) -> int:
    stars: int = sum(node.get("class") == "STAR" for node in _own(select["select_list"]))
    return max(0, stars - 1)


def _grows(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in GROWING


def _spreads(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"].lower() == "unnest"


def _is_long(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and _makes_long(node)


def _makes_long(node: Node) -> bool:
    arguments = _LONG.get(node["function_name"].lower())
    return arguments is not None and len(node["children"]) >= arguments


def _all(value: Any) -> Iterator[Node]:
    """Every node of the tree."""
    return _nodes(value, lambda _node: False)


def _own(value: Any, skip: Callable[[Node], bool] = lambda _node: False) -> Iterator[Node]:
    """The nodes of a query without those of queries inside it, or of what is skipped."""
    return _nodes(value, lambda node: "cte_map" in node or skip(node))


def _nodes(value: Any, closed: Callable[[Node], bool]) -> Iterator[Node]:
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending += reversed(current)
        elif isinstance(current, dict):
            yield current
            if not closed(current):
                pending += reversed(current.values())
