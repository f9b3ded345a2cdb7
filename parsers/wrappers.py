"""What containers, schedulers and collectors put around a line, taken off again a block at a time.

Whether a line is wrapped shows in its first characters alone, so a block of plain lines costs a
look at those. Layers are peeled from the outside in, as often as there are any; a stamp of a layer
is kept beside the line (columns `wrap` and `zoned`), a message that the runtime cut into pieces
is put together again, and one record that holds several lines becomes those lines.
"""

from __future__ import annotations

import polars as pl

from parsers import json_lines, partials
from parsers.json_lines import stamped
from parsers.lines import apart
from parsers.records import FEW_ROWS, TIME
from parsers.stamps import NO_YEAR, ahead_of_utc, moment

_LAYERS_MAX = 12
# Colours, NULs and a byte order mark may stand before any layer, an actor's name too (Ray).
BEFORE = r"^(?:[\x00\ufeff]|\x1b\[[0-9;]*m\s?|\([A-Za-z][^()]*\bpid=[0-9]+[^()]*\)\s?)*"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_ZONE = r"Z|[+-][0-9]{2}:?[0-9]{2}"
_PROGRAM = r"[\w.-]+ [\w./@-]+(?:\([\w-]+\))?\[[0-9]+\]: "
# Names that a controller makes: of a stateful set, a deployment, a daemon set or a job.
_POD = r"[a-z0-9][a-z0-9.-]*-(?:[0-9]{1,3}|[bcdf-hj-np-tv-xz2456789]{5})"
_LAYERS = (
    # docker logs -t, Kubernetes CRI, rsyslog and journalctl -o short-iso
    rf"(?P<iso>{_DATE}T{_CLOCK})(?P<zone>{_ZONE})(?:\s(?P<stream>stdout|stderr) (?P<part>[FP])"
    rf"(?::\S+)?)?(?:\s|$)(?:{_PROGRAM})?",
    # the same without a zone; loguru
    rf"(?P<loguru>{_DATE}[T ]{_CLOCK}) (?:\| [A-Z]+ +\| \S+:\S+:[0-9]+ - )",
    rf"(?P<local>{_DATE}T{_CLOCK}) (?:{_PROGRAM})?",
    # syslog, RFC 5424 and RFC 3164; journalctl
    rf"<[0-9]{{1,3}}>1 (?P<iso5424>{_DATE}T{_CLOCK})(?P<zone5424>{_ZONE}) \S+ \S+ \S+ \S+ "
    r"(?:-|(?:\[[^\]]*\])+) ?",
    rf"(?:<[0-9]{{1,3}}>)?(?P<month>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>[0-9]{{1,2}}) "
    rf"(?P<clock>{_CLOCK})"
    r" [\w.:-]+ [\w./@-]+(?:\([\w-]+\))?(?:\[[0-9]+\])?: ",
    # journalctl -o short-full, whose names of zones are not unique
    rf"[A-Z][a-z]{{2}} (?P<full>{_DATE} {_CLOCK}) [A-Z]{{2,5}} {_PROGRAM}",
    # docker compose
    r"(?P<service>[\w.@/-]*)[ \t]*\|(?:\x1b\[[0-9;]*m)?(?:\s|$)",
    # kubectl logs --prefix, stern
    r"\[(?P<pod>pod/[^\]]+)\] ",
    rf"(?P<stern>{_POD}(?:\x1b\[[0-9;]*m)* (?:\x1b\[[0-9;]*m)*[a-z0-9][a-z0-9-]*)"
    r"(?:\x1b\[[0-9;]*m)* ",
    # srun -l
    r" *[0-9]{1,4}: ",
)
_PATTERN = rf"(?s){BEFORE}(?:{'|'.join(_LAYERS)})(?P<rest>.*)$"
_JSON = rf"{BEFORE}\{{\s*\""
_WRAPPED = rf"{_JSON}|{BEFORE}(?:{'|'.join(_LAYERS)})"
# How lines of either engine begin: no layer does.
_PLAIN = ("[2", "INFO ", "WARNING ", "ERROR ")
_MONTHS = {
    name: f"{number:02}"
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
        start=1,
    )
}


def unwrap(text: pl.DataFrame) -> pl.DataFrame:
    """The lines inside of their wrappers.

    Args:
        text: columns line, off (bytes), no.

    Returns:
        the same frame where no line is wrapped. Else: line, off, no, with wrap (the stamp of the
        innermost layer that has one; UTC where zoned, else some local clock, in the year NO_YEAR
        where it prints none; null without) and zoned; off is where the text begins. One line can
        have given several rows, and several lines one.
    """
    rows = wrapped(text)
    if not rows.height:
        return text
    others = text.join(rows.select("off"), on="off", how="anti")
    done = [_bare(others), *_peeled(_bare(rows))]
    whole = pl.concat(done).drop("who").sort("off", maintain_order=True)
    return apart(whole, "\n")


def wrapped(text: pl.DataFrame) -> pl.DataFrame:
    """Those lines (column line) that stand in a wrapper."""
    rows = text
    if text.height <= FEW_ROWS:
        odd = [not line.startswith(_PLAIN) for line in text["line"].to_list()]
        rows = text.filter(pl.Series(odd)) if any(odd) else text.clear()
    else:
        for start in _PLAIN:
            rows = rows.filter(~pl.col("line").str.starts_with(start))
            if not rows.height:
                break
    return rows.filter(pl.col("line").str.contains(_WRAPPED)) if rows.height else rows


def _bare(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        "line", "off", "no", wrap=pl.lit(None, TIME), zoned=pl.lit(False), who=pl.lit("")
    )


def _peeled(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """Rows without any layer, those with fewer layers first."""
    done: list[pl.DataFrame] = []
    for _ in range(_LAYERS_MAX):
        is_json = rows["line"].str.contains(_JSON)
        records, others = rows.filter(is_json), rows.filter(~is_json)
        opened, closed = json_lines.opened(records, BEFORE) if records.height else (rows[:0],) * 2
        rows = pl.concat([opened, _prefix_off(others) if others.height else others])
        rows = rows.sort("off", maintain_order=True)
        again = rows["line"].str.contains(_WRAPPED)
        done += [closed, rows.filter(~again)]
        rows = rows.filter(again)
        if not rows.height:
            return done
    return [*done, rows]


def _prefix_off(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without their outermost layer, which is no JSON."""
    found = rows["line"].str.extract_groups(_PATTERN).struct.unnest()
    month = pl.col("month").replace_strict(_MONTHS, default=None, return_dtype=pl.String)
    day = pl.col("day").str.zfill(2)
    time = found.select(
        zoned=moment(pl.coalesce("iso", "iso5424")) - ahead_of_utc(pl.coalesce("zone", "zone5424")),
        local=pl.coalesce(
            moment(pl.coalesce("loguru", "local", "full")),
            moment(pl.format(f"{NO_YEAR}-{{}}-{{}} {{}}", month, day, "clock")),
        ),
        who=pl.concat_str(pl.col("service", "pod", "stern", "stream").fill_null(""), separator="|"),
    )
    rows = stamped(rows, time["zoned"], time["local"]).with_columns(
        line=found["rest"],
        who=rows["who"] + time["who"],
        off=rows["off"] + (rows["line"].str.len_bytes() - found["rest"].str.len_bytes()),
    )
    cut = (found["part"] == "P").fill_null(False)
    return partials.joined(rows, cut, found["part"].is_null()) if cut.any() else rows
