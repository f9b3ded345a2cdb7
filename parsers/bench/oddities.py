"""What makes a benchmark point doubtful, in words, for the user to see beside its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from parsers.bench.points import Point, number, odd

# No server is that fast: a latency below can only be seconds under the wrong name.
_LEAST_MS = {"ttft": 1.0, "tpot": 0.2, "e2e": 5.0}
_RETOKENIZED_OFF = 0.1
_ITL_NEAR_ZERO = 0.2  # of TPOT

Check = Callable[[Point], Iterator[str]]


def mark(points: list[Point]) -> None:
    """Note the oddities of each point in its `extra`.

    Those of numbers that cannot be stand under `impossible` as well: most oddities only say what
    a number really counts.
    """
    for point in points:
        for check in _CHECKS:
            for sentence in check(point):
                odd(point, sentence)
                if check in _IMPOSSIBLE:
                    held = point["extra"].setdefault("impossible", [])
                    held += [sentence] if sentence not in held else []


def _failures(point: Point) -> Iterator[str]:
    failed, completed = point.get("failed"), point.get("completed")
    if failed:
        total = failed + (completed or 0)
        if completed is None:
            noun = "request" if failed == 1 else "requests"
            yield f"{failed:,} {noun} failed: the figures are of the others only."
        elif not completed:
            yield f"No request of {total:,} succeeded: there is no result."
        else:
            yield (
                f"{failed:,} of {total:,} requests failed ({failed / total:.0%}): the figures are "
                "of the others only."
            )
    elif completed == 0:
        yield "No request was completed: there is no result."
    asked = point.get("num_prompts")
    if not failed and completed and asked and completed < asked:
        yield (
            f"{completed:,} of {asked:,} prompts were completed: the rest failed, or the data set "
            "has fewer."
        )


def _below_zero(point: Point) -> Iterator[str]:
    """TPOT and ITL can be below zero without an error in the file: see `_latencies`."""
    low = [
        name
        for name, value in point.items()
        if isinstance(value, int | float) and value < 0 and not name.startswith(("tpot", "itl"))
    ]
    if low:
        yield f"Below zero: {', '.join(sorted(low))}. The file is damaged or was changed by hand."


def _peak(point: Point) -> Iterator[str]:
    peak, mean = point.get("peak_output_tok_s"), point.get("output_tok_s")
    if peak is not None and mean is not None and peak < mean:
        yield (
            f"The peak ({peak:,.0f} tok/s) is below the mean ({mean:,.0f} tok/s): it counts "
            "streamed chunks, and a chunk can hold several tokens, as under speculation."
        )


def _latencies(point: Point) -> Iterator[str]:
    for statistic in ("mean", "median"):
        value = point.get(f"tpot_ms_{statistic}")
        if value is not None and (value < 0 or str(value) == "-0.0"):
            yield (
                f"The {statistic} TPOT is negative ({value:.2f} ms): the answers were not "
                "streamed, TPOT and ITL mean nothing here."
            )
            break
    for statistic in ("mean", "median", "p99"):
        first, whole = point.get(f"ttft_ms_{statistic}"), point.get(f"e2e_ms_{statistic}")
        if first is not None and whole is not None and first > whole * 1.000001:
            yield (
                f"The {statistic} TTFT ({first:,.2f} ms) is above the {statistic} E2E latency "
                f"({whole:,.2f} ms): they are not of the same requests."
            )
            break


def _chunks(point: Point) -> Iterator[str]:
    """ITL is taken per streamed chunk: with several tokens in a chunk it is not TPOT."""
    itl, tpot = point.get("itl_ms_median"), point.get("tpot_ms_median")
    if point["tool"] == "GuideLLM":  # its TPOT counts the first token: no measure for its ITL
        return
    if itl is None or tpot is None or tpot <= 0 or itl >= _ITL_NEAR_ZERO * tpot:
        return
    accept = point.get("accept_len")
    why = "speculation sends" if accept is not None and accept > 1.05 else "the stream sends"
    yield (
        f"The median ITL ({itl:.2f} ms) is near zero: {why} several tokens at once. Use TPOT "
        f"({tpot:.2f} ms)."
    )


def _concurrency(point: Point) -> Iterator[str]:
    most = point.get("concurrency")
    extra = point["extra"]
    seen = number(extra.get("Peak concurrent requests", extra.get("max_concurrent_requests")))
    if most is not None and seen is not None and seen > most:
        yield (
            f"The peak of {seen:,.0f} concurrent requests is above the maximum of {most:,.0f}: it "
            "counts every request that touched a second."
        )


def _retokenized(point: Point) -> Iterator[str]:
    extra = point["extra"]
    again = number(
        extra.get(
            "Total generated tokens (retokenized)", extra.get("total_output_tokens_retokenized")
        )
    )
    told = point.get("output_tokens")
    if not told or again is None or abs(again - told) <= _RETOKENIZED_OFF * told:
        return
    yield (
        f"Tokenized again the answers have {again:,.0f} tokens, not {told:,}: the count may be of "
        "what was asked for, and throughput and TPOT with it."
    )


def _random_prompts(point: Point) -> Iterator[str]:
    accept, data = point.get("accept_len"), point.get("dataset")
    if accept is not None and data is not None and str(data).startswith("random"):
        yield (
            f"Acceptance on random prompts ({accept:.2f}) says nothing of real ones: drafts of "
            "nonsense are accepted less, repeated loops more."
        )


def _units(point: Point) -> Iterator[str]:
    """Milliseconds that are too few for what they cover."""
    whole = point.get("e2e_ms_mean", point.get("e2e_ms_median"))
    duration, completed = point.get("duration_s"), point.get("completed")
    lanes = point.get("concurrency")
    if whole and duration and completed and lanes:
        # Requests one after another in so many lanes fill the time.
        expected_ms = 1000 * duration * min(lanes, completed) / completed
        if whole < expected_ms / 100:
            yield (
                f"An E2E latency of {whole:g} ms cannot fill {duration:,.0f} s with "
                f"{completed:,} requests: it looks like seconds."
            )
            return
    for metric, least in _LEAST_MS.items():
        value = point.get(f"{metric}_ms_median", point.get(f"{metric}_ms_mean"))
        if value is not None and 0 < value < least:
            yield f"A {metric.upper()} of {value:g} ms is too short: it looks like seconds."
            return


_IMPOSSIBLE: tuple[Check, ...] = (_below_zero, _latencies, _units)
_CHECKS: tuple[Check, ...] = (
    _below_zero,
    _failures,
    _peak,
    _latencies,
    _chunks,
    _concurrency,
    _retokenized,
    _random_prompts,
    _units,
)
