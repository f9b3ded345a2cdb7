"""What a commit of a lake tells its catalog, and the trigger there that refuses some of them.

A commit does not trust locks, since a process may be stopped between looking and committing: it
carries the places of the files it goes on from, and is refused, whole, where somebody has gone on
from there already.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from data.checkpoints import Checkpoint

REFUSED = "servescope: stored already: "
# DuckLake refuses a commit that deletes from a table into which another one has inserted since it
# began: where lines come all the time it would never have its turn. So whoever deletes holds this
# lock, others are refused meanwhile, and then wait for it in line, together: among many that only
# looked now and then a long row of deletions would leave some without a turn.
DELETING = "deleting"


def key(name: str) -> int:
    """The number of an advisory lock, the same in every process."""
    digest = hashlib.blake2b(f"servescope {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


# One row for each file and each path: the seq of the latest checkpoint that was committed.
# The row `schema` says of which schema a commit must be at least: it is raised before an upgrade,
# which waits for commits under way, so none comes into tables that are being rewritten.
# Commits take turns from here on to their end, so one whose process stands still is given up.
# While somebody deletes from tables the others are refused. They must not wait here: whoever
# deletes would wait for the snapshot's number that they have taken. Nor may the word `conflict` be
# said, at which DuckLake tries again by itself (_SETTINGS in data/lake.py).
FENCE = """
CREATE TABLE IF NOT EXISTS servescope_positions (name text PRIMARY KEY, seq bigint NOT NULL);
CREATE OR REPLACE FUNCTION servescope_fence() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE step jsonb; least bigint;
BEGIN
    IF NEW.commit_extra_info LIKE '[{"servescope"%' THEN
        SELECT seq INTO least FROM servescope_positions WHERE name = 'schema' FOR SHARE;
        IF coalesce((NEW.commit_extra_info::jsonb->0->>'schema')::bigint, 0) < least THEN
            RAISE EXCEPTION 'servescope: schema %', least;
        END IF;
        IF NOT coalesce((NEW.commit_extra_info::jsonb->0->>'passes')::boolean, false)
            AND NOT pg_try_advisory_xact_lock_shared(-deleting-) THEN
            RAISE EXCEPTION 'servescope: somebody deletes';
        END IF;
        FOR step IN SELECT * FROM jsonb_array_elements(NEW.commit_extra_info::jsonb) LOOP
            CONTINUE WHEN step->>'seq' IS NULL;
            INSERT INTO servescope_positions AS p VALUES
                (step->>'servescope', (step->>'seq')::bigint)
            ON CONFLICT (name) DO UPDATE SET seq = EXCLUDED.seq
            WHERE p.seq < EXCLUDED.seq
                AND coalesce((step->>'after')::bigint, p.seq) = p.seq;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'servescope: stored already: %', step->>'servescope';
            END IF;
        END LOOP;
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', '15s', true);
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS servescope_fence ON ducklake_snapshot_changes;
CREATE TRIGGER servescope_fence BEFORE INSERT ON ducklake_snapshot_changes
    FOR EACH ROW EXECUTE FUNCTION servescope_fence();
""".replace("-deleting-", str(key(DELETING)))
# DuckLake remembers the statistics of a table until it changes, but not that it has none: while
# a table is empty it asks PostgreSQL for them again for every column that a question names
# (500 statements for the view `samples` of a store with one kind of line). So empty tables have
# some, as DuckLake writes them. Both inserts see the tables as they were.
BEGIN_STATISTICS = """
WITH bare AS (
    SELECT table_id FROM ducklake_table t WHERE end_snapshot IS NULL
        AND NOT EXISTS (SELECT FROM ducklake_table_stats s WHERE s.table_id = t.table_id)
), tables AS (
    INSERT INTO ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes)
    SELECT table_id, 0, 0, 0 FROM bare
)
INSERT INTO ducklake_table_column_stats (table_id, column_id, contains_null)
SELECT table_id, column_id, false FROM ducklake_column c JOIN bare USING (table_id)
WHERE end_snapshot IS NULL AND NOT EXISTS (
    SELECT FROM ducklake_column p
    WHERE p.table_id = c.table_id AND p.parent_column = c.column_id AND p.end_snapshot IS NULL
)
"""
FENCE_HASH = hashlib.sha256(FENCE.encode()).hexdigest()
# What is written on the fence: which one it is, and the tables and views that are all there.
SIGN = (
    "SELECT coalesce(obj_description(to_regproc('servescope_fence'), 'pg_proc'), ''), "
    "EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'servescope_fence')"
)
ADMIT = (
    "INSERT INTO servescope_positions VALUES ('schema', {schema}) "
    "ON CONFLICT (name) DO UPDATE SET seq = EXCLUDED.seq"
)


def steps(checkpoints: Sequence[Checkpoint], schema: int, *, passes: bool = False) -> str:
    """What a commit of these checkpoints tells the fence: each file goes on from where it was.

    `schema`: the version that its process writes. A commit without checkpoints tells it alone.
    `passes`: its process holds the lock of those who delete, alone or with others.
    """
    after: dict[str, int | None] = {}
    seqs: dict[str, int] = {}
    for checkpoint in checkpoints:
        name = f"file {checkpoint.file_id}"
        after.setdefault(name, checkpoint.after)
        seqs[name] = checkpoint.seq
        seqs[f"path {checkpoint.path}"] = checkpoint.seq
    told: list[dict[str, str | int | bool | None]] = [
        {"servescope": name, "seq": seq, "after": after.get(name)} for name, seq in seqs.items()
    ]
    told = told or [{"servescope": "change"}]
    told[0] |= {"schema": schema, "passes": passes}
    return json.dumps(told)


def refused_file(text: str, checkpoints: Sequence[Checkpoint]) -> str | None:
    """The file_id for whose sake the fence refused a commit; None: it was not the fence."""
    _, mark, rest = text.partition(REFUSED)
    if not mark:
        return None
    name = rest.split("\n", 1)[0]
    for checkpoint in checkpoints:
        if name.startswith((f"file {checkpoint.file_id}", f"path {checkpoint.path}")):
            return checkpoint.file_id
    return None
