"""Brings a store to the newest schema: a new one at once, an older one step by step."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import duckdb

from data import compact
from data.errors import StoreError
from data.moment import utc_now

HERE = Path(__file__).parent
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
MIGRATIONS = HERE / "migrations"  # 002_what_changes.sql, 003_...: one step each


def _steps() -> dict[int, Path]:
    return {int(path.name.split("_")[0]): path for path in sorted(MIGRATIONS.glob("*.sql"))}


def newest_version() -> int:
    """The schema version that this program writes."""
    return max(_steps(), default=1)


def stored_version(con: duckdb.DuckDBPyConnection) -> int | None:
    """The schema version of the open store, None for an empty one."""
    tables = {row[0] for row in con.execute(_TABLES).fetchall()}
    if not tables:
        return None
    foreign = StoreError("is a DuckDB file of another program; choose another --store")
    if not tables >= {"schema_version", "run_facts", "checkpoints"}:
        raise foreign
    try:
        row = con.execute("SELECT max(version)::INTEGER FROM schema_version").fetchone()
    except (duckdb.BinderException, duckdb.ConversionException) as error:
        raise foreign from error
    if row is None or row[0] is None:
        raise foreign
    return int(row[0])


def migrate(con: duckdb.DuckDBPyConnection) -> None:
    """Create or upgrade all tables and views; StoreError for a store that cannot be brought there.

    A failed step changes nothing.
    """
    try:
        _migrate(con)
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ConstraintException) as error:
        raise _unlike(con, str(error).splitlines()[0]) from error


def contents() -> str:
    """What a store of this release is made of: the version of its tables, the hash of its views."""
    return f"{newest_version()} {_views()[1]}"


def _migrate(con: duckdb.DuckDBPyConnection) -> None:
    newest, stored = newest_version(), stored_version(con)
    if stored is not None and stored > newest:
        raise StoreError(
            f"was written by a newer Servescope (schema {stored}, this one knows up to {newest}); "
            "upgrade Servescope or choose another --store"
        )
    if stored is None:
        _step(con, HERE / "schema.sql", newest)
    else:
        for version, path in _steps().items():
            if version > stored:
                _step(con, path, version)
        _refuse_gaps(con)
    _make_views(con)


def _refuse_gaps(con: duckdb.DuckDBPyConnection) -> None:
    """A build between two releases leaves stores that say a version and lack a table of it."""
    text = (HERE / "schema.sql").read_text()
    wanted = set(re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE))
    there = {row[0] for row in con.execute(_TABLES).fetchall()}
    if missing := sorted(wanted - there):
        raise _unlike(con, f"no table {missing[0]}")


def _unlike(con: duckdb.DuckDBPyConnection, what: str) -> StoreError:
    return StoreError(
        f"its tables are not those of the schema {stored_version(con)} that it says it has, as of "
        f"an unreleased build ({what}); it stays as it is: import the logs into another --store"
    )


def _views() -> tuple[str, str]:
    text = (HERE / "views.sql").read_text().replace("-- samples --", compact.VIEWS)
    return text, hashlib.sha256(text.encode()).hexdigest()


def _views_stand(con: duckdb.DuckDBPyConnection) -> bool:
    _, wanted = _views()
    return con.execute("SELECT DISTINCT hash FROM views_version").fetchall() == [(wanted,)]


def _make_views(con: duckdb.DuckDBPyConnection) -> None:
    """Only when they changed: a store on a full disk can still be read."""
    if _views_stand(con):
        return
    text, wanted = _views()
    con.execute("BEGIN TRANSACTION")
    try:
        con.execute(text)
        con.execute("DELETE FROM views_version")
        con.execute(f"INSERT INTO views_version VALUES ('{wanted}')")
        con.execute("COMMIT")
    except duckdb.Error:
        con.execute("ROLLBACK")
        raise


def _step(con: duckdb.DuckDBPyConnection, script: Path, version: int) -> None:
    con.execute("BEGIN TRANSACTION")
    try:
        con.execute(script.read_text())
        now = utc_now()  # its own now() makes DuckDB load a calendar
        con.execute(f"INSERT INTO schema_version VALUES ({version}, '{now}')")
        con.execute("COMMIT")
    except duckdb.Error:
        con.execute("ROLLBACK")
        raise
