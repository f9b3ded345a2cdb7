#!/usr/bin/env python3
"""The same fields as re_loop.py, taken with DuckDB alone. duckdb_regex.py FILE

One column of whole lines, read once; then `regexp_extract` of every field.
"""

from __future__ import annotations

import sys

import duckdb

DECODE = (
    r"#running-req: ([0-9]+), #token: ([0-9]+), token usage: ([0-9.]+), accept len: ([0-9.]+), "
    r"accept rate: ([0-9.]+), cuda graph: ([A-Za-z]+), "
    r"gen throughput .token/s.: ([0-9.]+), #queue-req: ([0-9]+)"
)
DECODE_NAMES = ["running", "token", "usage", "len", "rate", "graph", "gen", "queue"]
PREFILL = (
    r"#new-seq: ([0-9]+), #new-token: ([0-9]+), #cached-token: ([0-9]+), token usage: ([0-9.]+), "
    r"#running-req: ([0-9]+), #queue-req: ([0-9]+)"
)
PREFILL_NAMES = ["seq", "new", "cached", "usage", "running", "queue"]

READ = """
create temp table batch_lines as
select line, contains(line, 'Decode batch') as is_decode
from read_csv($path, columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '',
              escape = '', auto_detect = false)
where contains(line, 'Decode batch') or contains(line, 'Prefill batch')
"""
EXTRACT = """
create temp table {table} as
select strptime(line[2:20], '%Y-%m-%d %H:%M:%S') as ts,
       unnest(regexp_extract(line, '{pattern}', {names}))
from batch_lines where {condition}
"""
COUNT = "select (select count(*) from decode) + (select count(*) from prefill)"


def main() -> None:
    """Count the records of the file given as the only argument."""
    con = duckdb.connect()
    con.execute(READ, {"path": sys.argv[1]})
    for table, condition, pattern, names in (
        ("decode", "is_decode", DECODE, DECODE_NAMES),
        ("prefill", "not is_decode", PREFILL, PREFILL_NAMES),
    ):
        con.execute(EXTRACT.format(table=table, condition=condition, pattern=pattern, names=names))
    row = con.sql(COUNT).fetchone()
    print(row[0] if row else 0)


if __name__ == "__main__":
    main()
