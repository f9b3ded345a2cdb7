"""Where a store of many machines lies: `ducklake:postgres:` and the words of libpq.

The catalog is a PostgreSQL database, the rows are Parquet files under `data_path`, a folder that
all machines share or a bucket. Only `data_path` is a word of ours; it is needed once, when the
store is made. A password is never taken from here, where every user of the machine could read it:
libpq finds it in PGPASSFILE, PGPASSWORD or a service file.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from data.errors import StoreError

PREFIX = "ducklake:"
POSTGRES = "ducklake:postgres:"
_WORD = re.compile(r"\s*(?P<key>\w+)\s*=\s*(?P<value>'(?:[^'\\]|\\.)*'|[^\s'\\]*)(?=\s|$)")
_SECRET = ("password", "sslpassword", "oauth_client_secret")
# A peer that is gone without a word is noticed after half a minute, by both sides.
_PATIENCE = {
    "connect_timeout": "10", "keepalives_idle": "15", "keepalives_interval": "5",
    "keepalives_count": "3", "tcp_user_timeout": "30000",
    "options": "-c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
}  # fmt: skip


def is_lake(location: str) -> bool:
    """Whether a --store names a store of many machines."""
    return location.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class LakePlace:
    """A store of many machines."""

    words: tuple[tuple[str, str], ...]  # of libpq, as given
    data_path: str | None  # a folder or s3://…; None: as the catalog says

    @classmethod
    def parse(cls, location: str) -> LakePlace:
        """From the text of --store; StoreError says what is wrong with it."""
        if not location.startswith(POSTGRES):
            raise StoreError(f"{PREFIX} takes a PostgreSQL catalog: {POSTGRES}dbname=… host=…")
        rest, at, words = location.removeprefix(POSTGRES), 0, {}
        while rest[at:].strip():
            match = _WORD.match(rest, at)
            if match is None:
                shown = _without_values(rest[at:].strip())
                raise StoreError(f"{POSTGRES} … {shown}: give words such as host=db dbname=lake")
            value = match["value"]
            if value.startswith("'"):
                value = re.sub(r"\\(.)", r"\1", value[1:-1])
            words[match["key"]] = value
            at = match.end()
        for word in _SECRET:
            if word in words:
                raise StoreError(
                    f"{POSTGRES} … {word}=…: others can read a command line; put it into "
                    "PGPASSFILE or PGPASSWORD"
                )
        data_path = words.pop("data_path", None)
        for word, value in words.items():
            if "://" in value:
                raise StoreError(f"{POSTGRES} … {word}={_without_values(value)}: no URL goes here")
        return cls(tuple(words.items()), _absolute(data_path) if data_path else None)

    @property
    def name(self) -> str:
        """What messages call it."""
        return POSTGRES + " ".join(f"{key}={_quoted(value)}" for key, value in self.words)

    @property
    def conninfo(self) -> str:
        """What libpq is given: the words, and how long to wait for a peer that is gone."""
        words = _PATIENCE | dict(self.words)
        if "options" in dict(self.words):
            words["options"] = f"{_PATIENCE['options']} {dict(self.words)['options']}"
        return " ".join(f"{key}={_quoted(value)}" for key, value in words.items())

    @property
    def local(self) -> Path:
        """What this machine keeps of it lies beside this path: the running process, its sources."""
        home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        digest = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        return Path(home).expanduser().absolute() / "servescope" / f"lake-{digest}"


def _quoted(value: str) -> str:
    if re.fullmatch(r"[^\s'\\]+", value):
        return value
    return "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"


def _without_values(text: str) -> str:
    """The first word without what may be a password in it: a value, or the rest of a URL."""
    return re.sub(r"(=|://).*", r"\1…", text.split()[0])


def _absolute(data_path: str) -> str:
    """As the catalog keeps it: every machine must find it there."""
    if "://" in data_path:
        return data_path.rstrip("/") + "/"
    path = Path(data_path).expanduser()
    if not path.is_absolute():
        raise StoreError(f"data_path={data_path}: must be absolute, the same on every machine")
    return f"{path}/"
