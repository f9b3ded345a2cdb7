"""Whether a question is one SELECT over the documented views and nothing else.

Checked on the statement as DuckDB's own parser reads it, by lists of what is allowed: a table
that is not a documented view, a function that is not on the list, or a kind of node that nobody has
looked at is refused, also in releases of DuckDB to come. That leaves no way to files, settings, the
catalog, the environment, variables of Python or extensions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import duckdb

from data.documented import VIEWS
from data.errors import CommandError
from data.literal import literal
from data.sql_cost import GROWING, check_cost

MAX_CHARS: Final = 8_000
# One row can grow only by what is written into the statement: DuckDB cannot be interrupted between
# two functions of a row, so a text that doubles twenty times would take all memory.
MAX_GROWING: Final = 12

_ARITHMETIC: Final = """
+ - * / // % ** ^ & | << >> ~ @ abs add divide multiply subtract mod pow power sqrt cbrt exp ln
log log10 log2 ceil ceiling floor round round_even roundbankers trunc sign even fdiv fmod gcd lcm
greatest least factorial degrees radians pi sin cos tan cot asin acos atan atan2 sinh cosh tanh
isnan isinf isfinite random bit_count xor hash
"""
_TEXTS: Final = """
|| concat concat_ws ~~ !~~ ~~* !~~* ~~~ like_escape not_like_escape ilike_escape not_ilike_escape
lower upper lcase ucase length len strlen char_length character_length bit_length left right substr
substring trim ltrim rtrim reverse replace starts_with ends_with prefix suffix contains instr
strpos position split_part string_split str_split split string_to_array string_split_regex
str_split_regex regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_escape
regexp_split_to_array translate ascii ord unicode chr md5 sha256 hamming jaccard format_bytes
formatReadableSize formatReadableDecimalSize parse_filename parse_dirname parse_path strip_accents
nfc_normalize
"""
_TIMES: Final = """
age ago century date_add date_diff date_part date_sub date_trunc datediff datepart datesub
datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns
epoch_us era hour isodow isoyear last_day make_date make_time make_timestamp microsecond
millisecond minute month monthname now current_date current_timestamp get_current_time
get_current_timestamp current_localtime current_localtimestamp quarter second strftime strptime
try_strptime time_bucket timezone to_timestamp to_seconds to_milliseconds to_microseconds to_minutes
to_hours to_days to_weeks to_months to_years today week weekday weekofyear year yearweek
"""
_VALUES: Final = """
coalesce ifnull nullif if error typeof try alias row struct_pack struct_extract struct_extract_at
list_value list_pack list_extract list_element array_extract element_at list_slice array_slice
list_contains array_contains list_has array_has list_has_any list_has_all list_position
list_indexof list_distinct list_unique list_sort list_reverse_sort list_reverse array_length
list_count list_sum list_avg list_min list_max list_median list_first list_last list_product
list_stddev_pop list_transform list_apply apply list_filter filter list_zip list_concat list_cat
list_append list_prepend list_intersect flatten unnest map map_keys map_values map_extract
map_extract_value map_entries map_contains cardinality json_extract json_extract_string
json_extract_path json_extract_path_text -> ->> json_keys json_type json_valid json_value
json_exists json_contains json_array_length json_structure constant_or_null
union_value union_tag union_extract
"""
_AGGREGATES: Final = """
any_value approx_count_distinct approx_quantile arbitrary arg_max arg_min argmax argmin
arg_max_null arg_min_null array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count
count_if count_star countif covar_pop covar_samp entropy favg first fsum geomean geometric_mean
group_concat histogram kahan_sum kurtosis last list listagg mad max max_by mean median min min_by
mode product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count regr_intercept
regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem skewness stddev stddev_pop stddev_samp string_agg
sum sumkahan var_pop var_samp variance wavg weighted_avg grouping grouping_id
"""
_WINDOWS: Final = """
cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank
rank_dense row_number
"""
FUNCTIONS: Final = frozenset(
    name.lower()
    for names in (_ARITHMETIC, _TEXTS, _TIMES, _VALUES, _AGGREGATES, _WINDOWS)
    for name in names.split()
)
TABLE_FUNCTIONS: Final = frozenset({"range", "generate_series", "unnest", "json_each"})
# Names that DuckDB takes for functions where no column has them.
_FUNCTION_WORDS: Final = frozenset({
    "current_user", "session_user", "user", "current_role", "current_catalog", "current_schema",
    "current_database", "current_query", "current_setting",
})  # fmt: skip
_EXPRESSIONS: Final = frozenset({
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT",
    "DEFAULT", "FUNCTION", "LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR",
    "SUBQUERY", "WINDOW",
})  # fmt: skip
_TABLES: Final = frozenset({
    "BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", "TABLE_FUNCTION",
})  # fmt: skip
_QUERIES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_MAX_ARRAY: Final = 1_000  # elements of a fixed-size array
_OWN_SCHEMA: Final = ("", "main")

Node = Mapping[str, Any]
Names = frozenset[str]


def check(con: duckdb.DuckDBPyConnection, query: str) -> None:
    """CommandError unless `query` is one SELECT over documented views with known functions."""
    if len(query) > MAX_CHARS:
        raise CommandError(f"sql: the question is longer than {MAX_CHARS:,} characters")
    if not _is_text(query):
        raise CommandError("sql: the question holds characters that are no text")
    growing = 0
    statement = _parsed(con, query)
    for node, names in _walk(statement, frozenset()):
        _check_node(node, names)
        growing += _growing(node)
    if growing > MAX_GROWING:
        raise CommandError(
            f"sql: {growing} values are joined into texts and lists, {MAX_GROWING} are allowed"
        )
    check_cost(statement)


def _is_text(query: str) -> bool:
    """Whether DuckDB reads all of it: a zero would end it, half a character cannot be handed on."""
    try:
        return b"\0" not in query.encode()
    except UnicodeEncodeError:
        return False


def _parsed(con: duckdb.DuckDBPyConnection, query: str) -> Node:
    """The query's tree; CommandError where it is no single SELECT."""
    try:
        # With a parameter DuckDB first looks for pandas: a third of a second, once.
        row = con.execute(f"SELECT json_serialize_sql({literal(query)})").fetchone()
    except duckdb.Error as error:
        raise CommandError(f"sql: {str(error).splitlines()[0]}") from error
    assert row is not None
    try:
        tree = json.loads(row[0])
    except RecursionError as error:
        raise CommandError("sql: the question is nested too deeply") from error
    if tree["error"]:
        told = str(tree["error_message"]).splitlines()[0]
        only = "Only SELECT" in told
        raise CommandError("sql: exactly one SELECT is allowed" if only else f"sql: {told}")
    if len(tree["statements"]) != 1:
        raise CommandError("sql: exactly one SELECT is allowed")
    statement: Node = tree["statements"][0]
    return statement


def _walk(value: Any, names: Names) -> Iterator[tuple[Node, Names]]:
    """Every node with the names that WITH has given where it stands.

    A name counts from the next query of its WITH on; for itself only in the part of a recursive one
    that repeats. Before that it would mean a table of the catalog.
    """
    pending: list[tuple[Any, Names]] = [(value, names)]
    while pending:
        current, known = pending.pop()
        if isinstance(current, list):
            pending += [(part, known) for part in current]
        elif isinstance(current, dict):
            inner = known
            for entry in current.get("cte_map", {}).get("map", ()):
                pending.append((entry["value"], inner))
                inner = inner | {entry["key"].lower()}
            yield current, inner
            for name, part in current.items():
                if name == "cte_map":
                    continue
                if name == "function" and current.get("type") == "TABLE_FUNCTION":
                    part = part["children"]  # the function itself is judged with its table
                repeats = name == "right" and current.get("type") == "RECURSIVE_CTE_NODE"
                own = inner | {current["cte_name"].lower()} if repeats else inner
                pending.append((part, own))


def _check_node(node: Node, names: Names) -> None:
    kind, group = node.get("type"), node.get("class")
    if group is not None:
        if group not in _EXPRESSIONS:
            raise CommandError(f"sql: {_words(group)} is not allowed")
        if group in ("FUNCTION", "WINDOW"):
            _check_function(node, FUNCTIONS)
        elif group == "COLUMN_REF" and _is_function_word(node["column_names"]):
            raise CommandError(f"sql: {node['column_names'][0]} is not allowed")
    elif "query_location" in node or (isinstance(kind, str) and kind in _TABLES):
        _check_table(node, names)
    elif "cte_map" in node and kind not in _QUERIES:
        raise CommandError(f"sql: {_words(str(kind))} is not allowed")
    elif node.get("id") in ("ARRAY", "UNBOUND"):
        _check_type(node)


def _is_function_word(names: list[str]) -> bool:
    return len(names) == 1 and names[0].lower() in _FUNCTION_WORDS


def _check_table(node: Node, names: Names) -> None:
    kind = node["type"]
    if kind not in _TABLES:
        what = "DESCRIBE, SHOW or SUMMARIZE" if kind == "SHOW_REF" else _words(str(kind))
        raise CommandError(f"sql: {what} is not allowed")
    if kind == "TABLE_FUNCTION":
        _check_function(node["function"], TABLE_FUNCTIONS)
    if kind != "BASE_TABLE":
        return
    name = node["table_name"]
    own = node["schema_name"].lower() in _OWN_SCHEMA and not node["catalog_name"]
    known = name.lower() in VIEWS or (name.lower() in names and not node["schema_name"])
    if not (own and known) or node["at_clause"] is not None:
        full = ".".join(part for part in (node["catalog_name"], node["schema_name"], name) if part)
        raise CommandError(f"sql: {full!r} is no documented view; there are {', '.join(VIEWS)}")


def _check_function(node: Node, allowed: frozenset[str]) -> None:
    name = node["function_name"].lower()
    if name not in allowed and name in TABLE_FUNCTIONS | FUNCTIONS:
        where = "only after FROM" if name in TABLE_FUNCTIONS else "no table"
        raise CommandError(f"sql: the function {name} is {where}")
    if name not in allowed or node["schema"] not in _OWN_SCHEMA or node["catalog"]:
        raise CommandError(f"sql: the function {name} is not allowed")
    if name == "replace" and not _shortens(node["children"]):
        raise CommandError("sql: replace is allowed with two texts, the second no longer")


def _shortens(arguments: list[Node]) -> bool:
    """Whether replacing can only shorten a text: nested, it would grow without an end."""
    texts = [node["value"].get("value") for node in arguments[1:] if node["class"] == "CONSTANT"]
    if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
        return False
    return len(texts[0]) > 0 and len(texts[1].encode()) <= len(texts[0].encode())


def _check_type(node: Node) -> None:
    """A fixed-size array takes its full size in every row."""
    elements = 1
    inner: Any = node
    while inner:
        about = inner.get("type_info") or {}
        elements *= int(about.get("size") or 1)
        inner = about.get("child_type")
    if elements > _MAX_ARRAY:
        raise CommandError(f"sql: arrays have at most {_MAX_ARRAY:,} elements")


def _growing(node: Node) -> int:
    """How many values, not counting written ones, a function joins into a longer one."""
    if node.get("class") != "FUNCTION" or node["function_name"].lower() not in GROWING:
        return 0
    return sum(child["class"] != "CONSTANT" for child in node["children"])


def _words(name: str) -> str:
    return name.replace("_", " ").lower()
