"""The DuckLake itself: attached, brought to the newest schema, kept tidy."""

from __future__ import annotations

import importlib
import os
from datetime import datetime, timedelta
from pathlib import Path

import duckdb

from data.errors import StoreError
from data.lake_folder import known_folder, refuse_other_folder
from data.lake_place import LakePlace
from data.lake_session import MIGRATING, LakeSession
from data.literal import literal
from data.migrate import contents, migrate, newest_version, stored_version
from data.store import BULK, NO_NETWORK

NAME = "lake"
# Of the DuckDB to which it is attached. The extensions are native code of packages that pip has
# installed beside DuckDB's own and ours, and are as trustworthy as these; to check signatures in
# them at each start would take half a second of the processor (hashing 78 MB with DuckDB 1.5.5).
# Once external access is off no statement can load another file.
_CONFIG = NO_NETWORK | {"allow_unsigned_extensions": True}
# An append of live lines is a few rows in each of several tables. Up to this many are kept in the
# catalog until upkeep writes them out together, instead of as a file each.
INLINED_ROWS = 1000
# A commit that comes second is tried again against the catalog of the first.
_SETTINGS = (
    f"SET ducklake_default_data_inlining_row_limit = {INLINED_ROWS}",
    "SET ducklake_max_retry_count = 60",
    "SET ducklake_retry_wait_ms = 30",
    "SET ducklake_retry_backoff = 1.1",
)
KEPT = timedelta(minutes=30)  # for how long a question may read what has been replaced


def connect(
    place: LakePlace, session: LakeSession, *, read_only: bool, bulk: bool
) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory with the lake attached as NAME, and nothing else in reach."""
    made = session.made()
    if not made and place.data_path is None:
        raise StoreError(
            f"{place.name}: there is no store in this database yet; say where its files are to "
            "lie with data_path=/a/shared/folder or data_path=s3://bucket/prefix"
        )
    con = duckdb.connect(config=_CONFIG | (BULK if bulk else {}))
    try:
        _load(con, "postgres_scanner")
        _load(con, "ducklake")
        data_path = known_folder(place, session) if made else str(place.data_path)
        if made:
            refuse_other_folder(data_path, session)
        _reach(con, data_path)
        for setting in _SETTINGS:
            con.execute(setting)
        if made:
            _attach(con, place, data_path, read_only=read_only)
            con.execute(f"USE {NAME}")
        # A thousand collectors that start at once take turns only where there is something to do.
        if not read_only and not (made and session.ready(contents())):
            with session.alone(MIGRATING):
                if not made:
                    _attach(con, place, data_path, read_only=False)
                    con.execute(f"USE {NAME}")
                _upgrade(con, session)
        if read_only:
            _refuse_other_schema(stored_version(con), newest_version())
        con.execute("SET preserve_insertion_order = false")
        con.execute(f"SET allowed_directories = [{literal(data_path)}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
    except StoreError as error:
        con.close()
        if str(error).startswith(place.name):  # of the session
            raise
        raise StoreError(f"{place.name}: {error}") from error
    except BaseException:
        con.close()
        raise
    return con


def _refuse_other_schema(stored: int | None, ours: int) -> None:
    """For a role that cannot change it."""
    if stored != ours:
        newer = stored is not None and stored > ours
        todo = "upgrade this one" if newer else "start a collector of the same release first"
        raise StoreError(f"is of schema {stored}, this Servescope knows {ours}; {todo}")


def _upgrade(con: duckdb.DuckDBPyConnection, session: LakeSession) -> None:
    """To the schema of this release, while processes of an older one are writing.

    A step that copies a table would lose what they store meanwhile, so they are refused first.
    """
    stored, newest = stored_version(con), newest_version()
    if stored is None or stored <= newest:
        session.put_up_fence()
        session.set_ready("nothing yet")  # whoever opens it from here on waits for its turn
        session.admit(newest)
    try:
        migrate(con)
    except BaseException:
        if stored is not None and stored < newest:
            session.admit(stored)
        raise
    session.begin_statistics()
    session.set_ready(contents())  # the last: whoever finds it need not wait here


def tell(con: duckdb.DuckDBPyConnection, told: str) -> None:
    """Tell the fence what the open transaction is, before its commit: lake_fence.steps."""
    con.execute(
        f"CALL {NAME}.set_commit_message('servescope', 'append', extra_info => {literal(told)})"
    )


def _load(con: duckdb.DuckDBPyConnection, extension: str) -> None:
    """Load an extension from its package: nothing is fetched or installed."""
    try:
        package = importlib.import_module(f"duckdb_extension_{extension}")
    except ImportError as error:
        raise StoreError(
            f"needs {error.name}: pip install '.[fleet]' in Servescope's folder"
        ) from error
    folder = Path(str(package.__file__)).parent / "extensions" / f"v{duckdb.__version__}"
    con.execute(f"LOAD {literal(str(folder / f'{extension}.duckdb_extension'))}")


def _reach(con: duckdb.DuckDBPyConnection, data_path: str) -> None:
    """What is needed to get at the files."""
    if data_path.startswith("s3://"):
        _load(con, "httpfs")
        con.execute(_s3_secret(data_path))
        for setting in ("s3_access_key_id", "s3_secret_access_key", "s3_session_token"):
            con.execute(f"SET GLOBAL {setting} = ''")  # it takes them from the environment as well
    elif not Path(data_path).is_dir():
        try:
            Path(data_path).mkdir(parents=True, exist_ok=True)  # others open the store too
        except OSError as error:
            raise StoreError(f"{data_path}: cannot be created ({error.strerror})") from error


def _s3_secret(data_path: str) -> str:
    """Credentials of S3 from the environment, as a secret that no query can show."""
    values = {
        "KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID"),
        "SECRET": os.environ.get("AWS_SECRET_ACCESS_KEY"),
        "SESSION_TOKEN": os.environ.get("AWS_SESSION_TOKEN"),
        "REGION": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
    }
    if not values["KEY_ID"] or not values["SECRET"]:
        raise StoreError(
            f"{data_path}: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; put them into "
            "the environment"
        )
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    said = [f"{name} {literal(value)}" for name, value in values.items() if value]
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        said += [f"ENDPOINT {literal(host.rstrip('/'))}", "URL_STYLE 'path'"]
        said.append(f"USE_SSL {'false' if scheme == 'http' else 'true'}")
    return f"CREATE SECRET files (TYPE s3, {', '.join(said)}, SCOPE {literal(data_path)})"


def _attach(
    con: duckdb.DuckDBPyConnection, place: LakePlace, data_path: str, *, read_only: bool
) -> None:
    how = f"DATA_PATH {literal(data_path)}{', READ_ONLY' if read_only else ''}"
    con.execute(f"ATTACH {literal('ducklake:postgres:' + place.conninfo)} AS {NAME} ({how})")


# Write inlined rows out, merge small files, and delete what is no longer read.
TIDYING = (
    "ducklake_flush_inlined_data('{lake}')",
    "ducklake_rewrite_data_files('{lake}')",
    "ducklake_merge_adjacent_files('{lake}')",
    "ducklake_expire_snapshots('{lake}', older_than => TIMESTAMPTZ '{before}')",
    "ducklake_cleanup_old_files('{lake}', older_than => TIMESTAMPTZ '{before}')",
)


def tidying(step: str, before: datetime) -> str:
    """The statement for a step of TIDYING.

    `before`: what was replaced before it, by the clock of PostgreSQL, may be deleted.
    """
    return f"SELECT count(*) FROM (FROM {step.format(lake=NAME, before=before.isoformat(sep=' '))})"
