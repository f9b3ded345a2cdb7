"""What the names of log files say: which are logs, which were rotated, and in what order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from ingest.sources.log_file import Entry

LOGS = ("", ".log", ".txt", ".out", ".err")
PACKED = (".gz", ".zst")
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# server.log.1, server.log-20261129, server.log.2026-11-29_10
_ROTATED = re.compile(
    r"(?<=.)(?:\.(?P<number>[0-9]{1,3})|[-._](?P<date>[0-9]{4}-?[0-9]{2}-?[0-9]{2}(?:[-_T.]?[0-9]{2,6})*))$"
)


def shown(text: str) -> str:
    """A name, or a text with names in it, on one line and in UTF-8: file names may hold any byte
    but NUL and the slash. It is what the store and the screen know a file by."""
    return _ODD.sub(_escaped, text) if _ODD.search(text) else text


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python spells a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return match[0].encode("unicode_escape", "surrogatepass").decode()


def unpacked(name: str) -> str:
    """The name without the suffix of its packing."""
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name


def is_glob(text: str) -> bool:
    """Whether the text has a mark of a pattern."""
    return any(mark in text for mark in "*?[")


def is_log(relative: str, suffixes: tuple[str, ...] = LOGS, *, rotated: bool = True) -> bool:
    """Whether a file of a folder is taken for a log, by its path in the folder.

    `rotated`: rotated and packed ones are taken too.
    """
    path = PurePosixPath(relative)
    if any(part.startswith(".") for part in path.parts):
        return False
    name = _ROTATED.sub("", unpacked(path.name)) if rotated else path.name
    return PurePosixPath(name).suffix in suffixes


def rotated_from(name: str, current: str) -> bool:
    """Whether `name` is what became of an earlier `current`, both without their folder."""
    rest = unpacked(name)
    if name == current:
        return False
    stem, dot, suffix = current.rpartition(".")
    if rest.startswith(current):
        return rest == current or _is_turn(rest[len(current) :])
    # server.1.log and server-20261129.log keep the suffix at the end
    return (
        bool(dot)
        and rest.startswith(stem)
        and rest.endswith(f".{suffix}")
        and _is_turn(rest[len(stem) : -len(suffix) - 1])
    )


def latest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Rotated files of one log, the latest first: by number, by date, else by time of change."""
    found = list(entries)
    turns = [_turn(entry.name) for entry in found]
    if all(turn is not None and turn[0] == "number" for turn in turns):
        return sorted(found, key=lambda entry: int((_turn(entry.name) or ("", "0"))[1]))
    if all(turn is not None and turn[0] == "date" for turn in turns):
        return sorted(found, key=lambda entry: (_turn(entry.name) or ("", ""))[1], reverse=True)
    return sorted(found, key=lambda entry: (entry.changed_ns, entry.name), reverse=True)


def follows(earlier: str, later: str) -> bool:
    """Whether two names are of one log, the second of what was written straight after the first
    as far as names tell; the same name is."""
    if _log_of(earlier) != _log_of(later):
        return False
    before, after = _turn(earlier), _turn(later)
    if before is None or before[0] == "date":  # days without a line leave out dates
        return True
    gap = int(before[1]) - (int(after[1]) if after and after[0] == "number" else 0)
    return gap == 1 or (after is None and gap == 0)  # some count from .0


def in_turn(files: Iterable[str]) -> list[str]:
    """Files with those of one log together, where the first of it stands, in the order in which
    they were written; as they came where their names do not tell."""
    logs: dict[str, list[str]] = {}
    for name in files:
        logs.setdefault(_log_of(name), []).append(name)
    return [name for names in logs.values() for name in _as_written(names)]


def _as_written(names: list[str]) -> list[str]:
    turns = {name: _turn(name) for name in names}
    now = [name for name in names if turns[name] is None]
    past = [(turn[0], turn[1], name) for name, turn in turns.items() if turn]
    kinds = {kind for kind, _, _ in past}
    if kinds == {"number"}:
        past.sort(key=lambda turn: -int(turn[1]))
    elif kinds == {"date"}:
        past.sort(key=lambda turn: turn[1])
    else:
        return names
    return [name for _, _, name in past] + now


def _log_of(name: str) -> str:
    """The name under which a file was written, without its turn and its packing."""
    path = PurePosixPath(unpacked(name))
    stem = _ROTATED.sub("", path.name)
    if stem == path.name and path.suffix:
        stem = _ROTATED.sub("", path.stem) + path.suffix
    return str(path.with_name(stem))


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Files by the time of their last change, the numbered and dated ones of a log in turn."""

    def key(entry: Entry) -> tuple[int, int, str]:
        turn = _turn(entry.name)
        number = -int(turn[1]) if turn and turn[0] == "number" else 0
        return entry.changed_ns // 1_000_000_000, number, entry.name

    return sorted(entries, key=key)


def _is_turn(text: str) -> bool:
    return _ROTATED.fullmatch("x" + text, 1) is not None


def _turn(name: str) -> tuple[str, str] | None:
    """What a rotated name counts by, and the number or the date."""
    base = unpacked(PurePosixPath(name).name)
    for candidate in (base, base.rpartition(".")[0]):
        if match := _ROTATED.search(candidate):
            kind = "number" if match["number"] else "date"
            return kind, re.sub(r"[^0-9]", "", match[0])
    return None


def newest(entries: Iterable[Entry]) -> Entry | None:
    """The one to follow: the one written to last that is neither packed nor rotated away."""
    found = {entry.name: entry for entry in entries if unpacked(entry.name) == entry.name}
    current = [
        entry
        for name, entry in found.items()
        if (base := _ROTATED.sub("", name)) == name or base not in found
    ]
    return max(current, key=lambda entry: (entry.changed_ns, entry.name), default=None)
