"""Acceptance on one axis for both engines and all their versions.

`accept_len` is tokens per verification step and request, bonus token included. The printed rate
kept its name while its formula changed, so the strict rate is computed anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from parsers.records import ACCEPT_DEF, CHOICES, FEW_ROWS, says, with_columns
from parsers.windows import DEFAULT_STEPS, Rank

STRICT, WITH_BONUS, VLLM, ASSUMED, LIFETIME = CHOICES["accept_def"]
_PENDING = '"#pending-token"'
_V0_COUNTS = (
    r'"Number of speculative tokens": (?P<k>[0-9]+).*'
    r'"Number of emitted tokens(?: tokens)?": (?P<emitted>[0-9]+)'
)


@dataclass(frozen=True, slots=True)
class SpecCard:
    """What acceptance depends on: the log interval, the draft tokens as the engine counts them,
    and the printed rate's formula where it is known."""

    steps: int = DEFAULT_STEPS
    draft_tokens: int | None = None
    rate_def: str | None = None
    told_off: int = 0  # byte offset of the line that told the formula


def rate_def(rows: pl.DataFrame, draft_tokens: int | None) -> tuple[str, int] | None:
    """Which formula SGLang's printed rate has, told from the lines themselves.

    `#pending-token` came with 0.5.11, the release of the strict rate; the prefill lines of 0.5.9
    and 0.5.10 name their graph and not yet it. Without either the first line on which the two
    formulas differ decides; None while none does.

    Args:
        rows: decode and prefill rows of one run in file order.
        draft_tokens: speculative_num_draft_tokens.

    Returns:
        the formula and the byte offset of the line that tells it.
    """
    has_pending = pl.col("extra").str.contains(_PENDING, literal=True).fill_null(False)
    # Both names stand behind the graph's place: a line that has a graph and a rate is whole.
    whole = pl.col("graph_on").is_not_null() & pl.col("prompt_tok_s").is_not_null()
    may_tell = (
        rows.height > FEW_ROWS
        or rows["prompt_tok_s"].null_count() < rows.height
        or any(_PENDING in text for text in rows["extra"].to_list() if text)
    )
    telling = (
        rows.filter(has_pending | ((pl.col("kind") == "prefill") & whole))
        if may_tell
        else rows.clear()
    )
    if telling.height:
        first = telling.head(1).select("byte_offset", pending=has_pending)
        return (STRICT if first["pending"][0] else WITH_BONUS), int(first["byte_offset"][0])
    if not draft_tokens or draft_tokens < 2:
        return None
    length, rate = pl.col("accept_len"), pl.col("accept_rate_raw")
    bonus = (rate - length / draft_tokens).abs()
    strict = (rate - (length - 1) / (draft_tokens - 1)).abs()
    told = rows.filter((bonus - strict).abs() > 0.03).select("byte_offset", b=bonus < strict)
    if not told.height:
        return None
    return (WITH_BONUS if told["b"][0] else STRICT), int(told["byte_offset"][0])


def interval_counts(rows: pl.DataFrame, rank: Rank) -> tuple[pl.DataFrame, int | None]:
    """vLLM V0 counts since the server started: per interval, with the length that they give.

    The comparable length is emitted / (drafted / k), of the window's own counts (0.4.1 to 0.9.2).

    Returns:
        the rows, and the k that V0 prints (None under V1, whose rows stay as they are).
    """
    counts = rows["extra"].str.extract_groups(_V0_COUNTS).struct
    k = counts.field("k").cast(pl.Float64)
    if k.is_null().all():
        return rows, None
    totals = [
        rows["accepted_tokens"].cast(pl.Float64),
        rows["drafted_tokens"].cast(pl.Float64),
        counts.field("emitted").cast(pl.Float64),
    ]
    before = rank.totals or [0.0, 0.0, 0.0]
    accepted, drafted, emitted = (
        t - t.shift(1).fill_null(b) for t, b in zip(totals, before, strict=True)
    )
    rank.totals = [t[-1] for t in totals]
    counted = rows.with_columns(
        accepted_tokens=accepted.cast(pl.Int64),
        drafted_tokens=drafted.cast(pl.Int64),
        accept_len=(emitted * k / drafted).fill_nan(None),
    )
    return counted, int(k.drop_nulls()[-1])


def complete_sglang(rows: pl.DataFrame, card: SpecCard) -> pl.DataFrame:
    """request_steps, draft_accept_rate and accept_def of one run's SGLang rows."""
    if all(rows[name].null_count() == rows.height for name in ("accept_len", "accept_rate_raw")):
        return _without_acceptance(rows, card)
    drafts = (card.draft_tokens or 0) - 1
    length, raw = pl.col("accept_len"), pl.col("accept_rate_raw")
    told = pl.lit(card.rate_def is not None) & (pl.col("byte_offset") >= card.told_off)
    if drafts > 0:
        strict = ((length - 1) / drafts).round(6)
    elif card.rate_def == STRICT:
        strict = pl.when(told).then(raw)
    else:
        strict = pl.lit(None, pl.Float64)
    formula = (
        pl.when(told).then(pl.lit(card.rate_def, ACCEPT_DEF)).otherwise(pl.lit(ASSUMED, ACCEPT_DEF))
    )
    return rows.with_columns(
        request_steps=pl.when(pl.col("kind") == "decode").then(
            pl.col("running_reqs").cast(pl.Float64) * card.steps
        ),
        draft_accept_rate=strict,
        accept_def=pl.when(raw.is_not_null()).then(formula),
    )


def _without_acceptance(rows: pl.DataFrame, card: SpecCard) -> pl.DataFrame:
    """Of rows that print no acceptance only the steps are to be told."""
    steps = rows["running_reqs"].cast(pl.Float64) * card.steps
    decodes = says(rows["kind"], "decode")
    if not decodes.all():
        steps = steps.set(~decodes, None)
    return with_columns(rows, steps.alias("request_steps"))


def complete_vllm_v0(rows: pl.DataFrame, k: int) -> pl.DataFrame:
    """request_steps and draft_accept_rate of rows from `interval_counts` under V0.

    Its accepted tokens count beyond a rejection, so the strict rate comes from the length.
    """
    drafted, raw = pl.col("drafted_tokens"), pl.col("accept_rate_raw")
    return rows.with_columns(
        request_steps=pl.when(drafted > 0).then(drafted / k),
        draft_accept_rate=((pl.col("accept_len") - 1) / k).round(6),
        accept_rate_raw=raw.fill_nan(None),
        accept_def=pl.when(raw.is_not_nan()).then(pl.lit(LIFETIME, ACCEPT_DEF)),
    )


def complete_vllm(rows: pl.DataFrame) -> pl.DataFrame:
    """accept_len, request_steps and draft_accept_rate of vLLM spec rows under V1.

    Steps are accepted / Σ per-position where positions are printed, else accepted / (length - 1);
    with nothing accepted drafted / proposed tokens a step.
    """
    accepted, drafted = pl.col("accepted_tokens"), pl.col("drafted_tokens")
    positions = pl.col("accept_per_position")
    total = positions.list.sum()
    # 0.8.5 leaves the bonus token out: its length is the positions' sum (0.9.0 on: 1 + sum).
    printed = pl.col("accept_len")
    no_bonus = (printed < 1) | (
        (total > 0) & ((printed - total).abs() < (printed - total - 1).abs())
    )
    rows = rows.with_columns(accept_len=pl.when(no_bonus).then(printed + 1).otherwise(printed))
    steps = (
        pl.when((accepted > 0) & (total > 0))
        .then(accepted / total)
        .when((accepted > 0) & (pl.col("accept_len") > 1))
        .then(accepted / (pl.col("accept_len") - 1))
        .when((accepted == 0) & (positions.list.len() > 0))
        .then(drafted / positions.list.len())
    )
    return rows.with_columns(
        request_steps=steps,
        draft_accept_rate=pl.when(drafted > 0).then(accepted / drafted),
        accept_def=pl.when(pl.col("accept_rate_raw").is_not_null()).then(pl.lit(VLLM, ACCEPT_DEF)),
    )
