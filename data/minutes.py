"""Old samples as one row a minute: what of them stays, and how it is computed.

A row stands for the samples of one minute that are alike: of one group (run, file, rank, kind,
window) and, where the window is steady, of one running count. So sums of tokens and seconds, rates
at exact running counts and weighted acceptance lengths come out as from the samples themselves.
Rows of a minute are laid end to end before its last stamp, as their windows lay. What a line
printed beside the columns (`extra`) is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator

TABLE = "minute_rows"
MARK = "minute"  # in interval_from of the view `samples`

_BY_SECONDS = ("running_reqs", "queued_reqs", "kv_tokens", "kv_usage", "gen_tok_s", "prompt_tok_s")
_BY_STEPS = ("accept_len", "accept_rate_raw", "draft_accept_rate")
_SUMS = (
    "accepted_tokens", "drafted_tokens", "request_steps", "new_seqs", "new_tokens",
    "cached_tokens", "preemptions", "interval_s",
)  # fmt: skip
_SPANNED = (
    "running_reqs", "queued_reqs", "kv_usage", "gen_tok_s", "prompt_tok_s", "accept_len",
)  # fmt: skip
_POSITIONS = 32  # of speculated tokens in a step; engines go up to 16
_WHOLE = ("running_reqs", "queued_reqs")  # counts whose mean has a fraction

# Samples that differ in one of these are never put together. Whether a value is there counts too:
# a mean of some and the seconds of all would give other tokens than the samples. Of a row of
# stats lines, though, all lines on speculation that stand under them make one row.
ALIKE = (
    "lane", "group_id", "minute", "steady_reqs", "interval_s IS NULL", "gen_tok_s IS NULL",
    "prompt_tok_s IS NULL", "accept_len IS NULL",
)  # fmt: skip
_UNDER = ("lane", "above", *(f"CASE WHEN above IS NULL THEN {name} END" for name in ALIKE[1:]))


def _mean(name: str, weight: str) -> str:
    weighed = f"sum({name} * {weight}) / nullif(sum({weight}) FILTER ({name} IS NOT NULL), 0)"
    return f"coalesce({weighed}, avg({name}))"


def _values() -> Iterator[str]:
    for name in _BY_SECONDS:
        yield f"{_mean(name, 'interval_s')} AS {name}"
    for name in _BY_STEPS:
        yield f"{_mean(name, 'request_steps')} AS {name}"
    for name in _SUMS:
        yield f"sum({name}) AS {name}"
    yield "max(retracted_reqs) AS retracted_reqs"
    known = "coalesce(new_tokens + cached_tokens, interval_s, 1)"
    yield f"{_mean('prefix_hit_rate', known)} AS prefix_hit_rate"


def _positions() -> str:
    places = (
        _mean(f"accept_per_position[{place}]", "request_steps")
        for place in range(1, _POSITIONS + 1)
    )
    # Without any, the slice of a list is NULL.
    return f"([{', '.join(places)}])[:max(len(accept_per_position))] AS accept_per_position"


def _extremes() -> Iterator[str]:
    for name in _SPANNED:
        yield f"min({name}) AS {name}_min"
        yield f"max({name}) AS {name}_max"


def rows(*, positions: bool = True) -> str:
    """The query for rows of TABLE out of `chosen`: samples with their kind, the columns of ALIKE,
    and for a line on speculation `above`, the first place of the samples that its stats line is
    put together with.

    Args:
        positions: with accept_per_position; half of all that is summed, and only lines on
            speculation (kind `spec`) have it.
    """
    told = [_positions() if positions else "NULL::DOUBLE[] AS accept_per_position"]
    return f"""
WITH alike AS (
    SELECT kind, min(group_id) AS group_id, lane, min(minute) AS minute,
        any_value("window") AS "window", count(*) AS lines,
        coalesce(above + 1, min(byte_offset)) AS byte_offset, min(line_no) AS line_no,
        max(ts) AS last_ts, {", ".join([*_values(), *told, *_extremes()])}
    FROM chosen
    GROUP BY kind, {", ".join(_UNDER)}
), ends AS (
    SELECT *, coalesce("window", '') NOT IN ('after_idle', 'startup') AS timed,
        max(last_ts) OVER (PARTITION BY lane, kind, minute) AS end_ts
    FROM alike
), room AS (
    SELECT *, epoch(end_ts) - epoch(lag(end_ts) OVER (PARTITION BY lane, kind ORDER BY minute))
        AS seconds
    FROM (SELECT DISTINCT lane, kind, minute, end_ts FROM ends)
), shared AS (
    -- Windows computed from steps can be longer than the time between their stamps: those of a
    -- minute share the time since the minute before.
    SELECT e.*, seconds, CASE WHEN timed THEN least(interval_s, seconds) END AS wanted,
        sum(wanted) OVER (PARTITION BY lane, kind, minute) AS wanted_by_all
    FROM ends e JOIN room USING (lane, kind, minute, end_ts)
), laid AS (
    SELECT *, least(1, seconds / nullif(wanted_by_all, 0)) * coalesce(sum(wanted) OVER (
        PARTITION BY lane, kind, minute ORDER BY byte_offset DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS later_s
    FROM shared
)
SELECT * EXCLUDE (kind, lane, minute, "window", last_ts, timed, end_ts, seconds, wanted,
        wanted_by_all, later_s),
    CASE WHEN timed THEN end_ts - to_microseconds((later_s * 1e6)::BIGINT) ELSE last_ts END AS ts
FROM laid
"""


def column(name: str, sql_type: str) -> str:
    """The column of a sample as a row of TABLE, called `r`, has it; its group is `g`."""
    if name == "interval_from":
        return f"'{MARK}' AS interval_from"
    if name == "extra":
        return "NULL::VARCHAR AS extra"
    if name in _WHOLE:
        return f"round(r.{name})::INTEGER AS {name}"
    if name == "kv_usage":  # where the cache was fullest is what matters of it
        return "r.kv_usage_max AS kv_usage"
    return f'r."{name}"::{sql_type} AS "{name}"'
