"""Marks of lines, over the edge between blocks: a traceback that a block cuts off is held.

Held lines are read again with the block after them, so that a file gives the same marks however it
was cut. They wait in the state of the pipeline, secrets redacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from parsers import common_marks, records, sglang_marks, vllm_marks
from parsers.block_text import Text
from parsers.heads import Head, last_stamp
from parsers.marks import Mark, Marker
from parsers.server_args import redact_text

_RULES = (
    *(("sglang", rule) for rule in sglang_marks.RULES),
    *(("vllm", rule) for rule in vllm_marks.RULES),
    *((None, rule) for rule in common_marks.RULES),
)
_HELD_BYTES = 256 * 1024
_HELD = {
    "line": pl.String(),
    "off": pl.Int64(),
    "no": pl.Int64(),
    "wrap": pl.String(),
    "zoned": pl.Boolean(),
}


@dataclass(slots=True)
class HeldMarks:
    """Reads the marks of one file, block after block.

    Attributes:
        salt: of the hashes that stand for redacted secrets.
        held: rows of _HELD: the lines of a traceback whose end is not there yet.
        stamp: the last one before the next block.
    """

    salt: str
    held: list[tuple[Any, ...]] = field(default_factory=list)
    stamp: Head | None = None
    _marker: Marker = field(init=False)

    def __post_init__(self) -> None:
        self._marker = Marker(_RULES, self.salt)

    def dump(self) -> dict[str, Any]:
        """What the next block needs, for the state of the pipeline."""
        return {"held": self.held, "stamp": self.stamp}

    def load(self, held: Sequence[Sequence[Any]], stamp: dict[str, Any] | None) -> None:
        """Values as `dump` gave them; those of older releases know no wrappers."""
        self.held = [(*row, None, False)[:5] for row in held]
        self.stamp = Head(**stamp) if stamp else None

    def join(self, block: Text) -> Text:
        """The block's lines after those of a traceback that the block before cut off."""
        if not self.held:
            return block
        text = block.whole()
        before = pl.DataFrame(self.held, schema=_HELD, orient="row").with_columns(
            pl.col("wrap").str.to_datetime(time_unit="us"), sample=False, access=False
        )
        if "wrap" in text.columns or before["wrap"].null_count() == before.height:
            return Text(pl.concat([before.select(text.columns), text]))
        both = pl.concat([before, text], how="diagonal")
        return Text(both.with_columns(pl.col("zoned").fill_null(False)))

    def read(self, text: Text, final: bool) -> list[Mark]:
        """Marks of lines; those of a traceback whose end is not there yet are held.

        Args:
            text: lines as of `join`.
            final: no line comes after these.
        """
        self.held = []
        if not text.height:
            return []
        marks, cut = self._marker.read(text, self.stamp, final)
        if cut is None:
            self.stamp = self._last_stamp(text, 0) or self.stamp
            return marks
        held = text.whole().slice(cut)
        if held["line"].str.len_bytes().sum() > _HELD_BYTES:  # no traceback: read as it is
            marks, _ = self._marker.read(text, self.stamp, final=True)
            held = held.clear()
        if "wrap" not in held.columns:
            held = held.with_columns(wrap=pl.lit(None, records.TIME), zoned=False)
        held = held.select(pl.col("line", "off", "no"), pl.col("wrap").cast(pl.String), "zoned")
        self.held = [(redact_text(row[0]), *row[1:]) for row in held.rows()]
        # Held lines are read again, after the stamp that stands before them.
        self.stamp = self._last_stamp(text, held.height) or self.stamp
        return marks

    def _last_stamp(self, text: Text, held: int) -> Head | None:
        """The last stamp of a block before the lines that are held."""
        if held:
            whole = text.whole()
            return last_stamp(whole["line"].head(whole.height - held))
        return last_stamp(pl.Series(text.last())) or last_stamp(text.stamped()["line"])
