"""What the Sources page says of its sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dashboard import sentences, words
from dashboard.context import SourceStatus
from dashboard.followed import Remote

ENGINES: Final = {"sglang": "SGLang", "vllm": "vLLM"}


def headline(sources: Sequence[SourceStatus]) -> str:
    """How many there are, and how they are doing."""
    if not sources:
        return "No source is followed."
    states = Counter("with an error" if s.state == "error" else s.state for s in sources)
    told = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return f"{words.counted(len(sources), 'source')}: {told}."


def facts(source: SourceStatus) -> str:
    """The line under a source: its file, how far behind, its last line, its tags."""
    now = datetime.now(UTC)
    age = (now - source.last_line_at).total_seconds() if source.last_line_at else None
    if isinstance(source, Remote):
        return sentences.age(source, age)
    parts = []
    if source.path and source.path != source.source_id:
        parts.append(source.path)
    if source.lag_bytes:
        behind = f"{words.size(source.lag_bytes)} not stored yet"
        if source.behind_since is not None:
            behind += f" for {words.duration((now - source.behind_since).total_seconds())}"
        parts.append(behind)
    elif source.last_line_at is not None:
        parts.append("all stored" + (" but an unfinished last line" * source.unfinished_line))
    parts.append(f"last line came {words.ago(age)}" if age is not None else "no line yet")
    if source.tags:
        parts.append(f"tags: {', '.join(source.tags)}")
    return "; ".join(parts)


def found(report: Mapping[str, Any]) -> list[str]:
    """What a look at a source found, a sentence each."""
    told = []
    if report["host"]:
        told.append(f"The host answers: {report['host']}.")
    if report["name"] is None:
        return [*told, "There is no log yet; it will be read as soon as it appears."]
    size = f", {words.size(report['size'])}" if report["size"] is not None else ""
    told.append(f"To be followed: {report['name']}{size}.")
    if report["engine"] is None:
        told.append("No line of an SGLang or vLLM server in its first megabyte.")
    else:
        runs = words.counted(report["runs"], "server start")
        told.append(f"{ENGINES.get(report['engine'], report['engine'])}, {runs} in its beginning.")
    return told
