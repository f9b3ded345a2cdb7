"""Readers of benchmark results: one module a tool, and tables made by hand.

A reader takes the content of a file and gives points: dicts with the columns of
`parsers.records.BENCH_RESULTS` that are known, and `extra`, a dict of everything else under its
printed name. `read` chooses the reader by what the file holds, never by its name.
"""
