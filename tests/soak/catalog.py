"""What a fleet costs its catalog: `python -m tests.soak.catalog [COMMITS]`.

Processor time of PostgreSQL and of the collector for each commit of live lines, the rows and bytes
it leaves, what upkeep makes of them, and how the cost of a question grows with the number of
files. Processor time, unlike a stop-watch, hardly depends on what else the machine does.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from data import lake_upkeep
from data.checkpoints import Checkpoint
from data.store import Store
from tests.frames import decode, samples
from tests.postgres import Postgres

LINES = 20  # of a commit
FILES = (1, 10, 100, 300)
_TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """Processor seconds of this process and of a PostgreSQL server since the last look."""

    def __init__(self, server: Postgres) -> None:
        self._server = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        self._before = (0.0, 0.0)
        self.spent()

    def spent(self) -> tuple[float, float]:
        """Of the server with all its connections, and of ours."""
        now = (self._of_server(), time.process_time())
        spent = (now[0] - self._before[0], now[1] - self._before[1])
        self._before = now
        return spent

    def _of_server(self) -> float:
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                pid, (_, rest) = int(stat.parent.name), stat.read_text().rsplit(")", 1)
            except (OSError, ValueError):
                continue  # it has just ended
            values = rest.split()
            if pid == self._server:
                ticks += sum(map(int, values[11:15]))  # with that of connections that ended
            elif int(values[1]) == self._server:
                ticks += sum(map(int, values[11:13]))
        return ticks / _TICKS


def main() -> int:
    """Measure and print."""
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    lake_upkeep.EVERY_S = 1e9  # only when it is asked for
    with tempfile.TemporaryDirectory(prefix="servescope-catalog-") as folder:
        server = Postgres()
        try:
            location = server.lake(Path(folder) / "files")
            with Store.open(location) as store:
                _commits(store, server, location, commits)
                _questions(store, server)
        finally:
            server.close()
    return 0


def _commits(store: Store, server: Postgres, location: str, commits: int) -> None:
    database = location.rpartition("dbname=")[2]
    rows = _catalog_rows(server, database)
    meter, at = Meter(server), 0
    for at in range(commits):
        _append(store, at, LINES, "live")
    theirs, ours = (1000 * spent / commits for spent in meter.spent())
    more = (_catalog_rows(server, database) - rows) / commits
    print(
        f"a commit of {LINES} lines: PostgreSQL {theirs:.1f} ms, collector {ours:.1f} ms of "
        f"processor time, {more:.1f} rows in the catalog"
    )
    store.shrink()
    theirs, ours = meter.spent()
    left = _catalog_rows(server, database) - rows
    print(
        f"upkeep after {commits} commits: PostgreSQL {theirs:.2f} s, its process {ours:.2f} s; "
        f"{left} rows are left of them; {store.size_bytes() / 2**20:.1f} MB with the catalog"
    )


def _questions(store: Store, server: Postgres) -> None:
    """Files of 1,500 lines of a run each, that nothing merges."""
    made = 0
    for files in FILES:
        while made < files:
            _append(store, made, 1500, f"run{made}")
            made += 1
        one = _cost(store, server, "SELECT avg(gen_tok_s) FROM samples WHERE run_id = 'run0'")
        whole = _cost(store, server, "SELECT run_id, avg(gen_tok_s) FROM samples GROUP BY ALL")
        runs = _cost(store, server, "SELECT count(*) FROM run_summary")
        there, size, rows = _files(store)
        print(
            f"{there} files of decode lines, {size / rows:.0f} bytes a line: one run {one}; all "
            f"samples {whole}; list of runs {runs}"
        )
    meter = Meter(server)
    store.shrink()
    theirs, ours = meter.spent()
    there, size, rows = _files(store)
    print(
        f"merged to {there} of {size / rows:.0f} bytes a line with {theirs:.2f} s of PostgreSQL "
        f"and {ours:.2f} s: one run "
        + _cost(store, server, "SELECT avg(gen_tok_s) FROM samples WHERE run_id = 'run0'")
    )


def _files(store: Store) -> tuple[int, int, int]:
    """How many files hold decode lines, their bytes and their lines."""
    with closing(store.cursor()) as con:
        row = con.execute(
            "SELECT count(*), sum(file_size_bytes), sum(record_count) "
            "FROM __ducklake_metadata_lake.ducklake_data_file "
            "JOIN __ducklake_metadata_lake.ducklake_table t USING (table_id) "
            "WHERE table_name = 'decode_rows' AND ducklake_data_file.end_snapshot IS NULL"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1] or 0), int(row[2] or 1)


def _cost(store: Store, server: Postgres, query: str, times: int = 5) -> str:
    meter = Meter(server)
    _repeat(lambda: _ask(store, query), times)
    theirs, ours = (1000 * spent / times for spent in meter.spent())
    return f"{ours:.0f} ms + {theirs:.0f} ms of PostgreSQL"


def _repeat(work: Callable[[], None], times: int) -> None:
    for _ in range(times):
        work()


def _ask(store: Store, query: str) -> None:
    with closing(store.cursor()) as con:
        con.execute(query).fetchall()


def _append(store: Store, at: int, lines: int, name: str) -> None:
    rows = [
        decode(
            at * lines + n, run_id=name, file_id=name, source_id=f"h:/{name}",
            gen_tok_s=1000 + (n * 37) % 900 / 10, kv_tokens=at * lines + n, kv_usage=n % 90 / 100,
        )
        for n in range(lines)
    ]  # fmt: skip
    store.append(
        samples(rows),
        Checkpoint(
            f"h:/{name}", name, f"h:/{name}", at + 1, (at + 1) * 1000, at, "ab", 10, "cd", "{}",
            after=None,
        ),
    )  # fmt: skip


def _catalog_rows(server: Postgres, database: str) -> int:
    """Rows of all tables of the catalog, those of inlined rows too."""
    tables = server.execute(
        "SELECT tablename FROM pg_tables WHERE tablename LIKE 'ducklake%'", database
    )
    union = " UNION ALL ".join(f'SELECT count(*) AS n FROM "{table}"' for (table,) in tables)
    return int(str(server.execute(f"SELECT sum(n) FROM ({union}) c", database)[0][0]))


if __name__ == "__main__":
    sys.exit(main())
