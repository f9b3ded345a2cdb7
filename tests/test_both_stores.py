"""What holds for both kinds of store is tested on both, by the fixtures `open_store` and
`open_module_store`; what is tested on a file alone stands here, with the reason."""

from __future__ import annotations

import re
from pathlib import Path

_ONE_MACHINE = "of one machine: a file's lock, kind, age, damage and schemas before the first lake"
_INGEST = "reading reaches either store through the same `Store`; tests/fleet.py reads"
_PAGE = "a page: test_page_matrix opens each of them over either store"
_COMMAND = "a command, which opens whatever it is given through the same `Store.open`"

FILE_ALONE = {
    "test_bench_import": "one test looks into the file itself; the others are on both",
    "test_bench_page": _PAGE,
    "test_canary": "looks for secrets in the bytes of a file; what a lake gets is the same",
    "test_card": _COMMAND,
    "test_checkpoint_size": _INGEST,
    "test_clear_errors": _COMMAND,
    "test_commands_while_up": _ONE_MACHINE,
    "test_compare": _COMMAND,
    "test_compare_browser": _PAGE,
    "test_ctrl_c": _INGEST,
    "test_disk_full": "both, each with a disk of its own",
    "test_every_page": _PAGE,
    "test_export_columns": _COMMAND,
    "test_fair": _INGEST,
    "test_fold": "one test: when a file is folded; a lake is by its upkeep, in test_lake",
    "test_hostile_text": _PAGE,
    "test_import": _INGEST,
    "test_incidents": "words of logs; test_explore_page asks its view on both",
    "test_incidents_page": _PAGE,
    "test_lost_connection": _PAGE,
    "test_migrations": _ONE_MACHINE,
    "test_odd_logs": _INGEST,
    "test_one_reader": "names and copies of files on one machine; a lake has locks on sources",
    "test_page_matrix": _PAGE,
    "test_picture": _PAGE,
    "test_question": _COMMAND,
    "test_run_across_files": _INGEST,
    "test_run_cache": _PAGE,
    "test_sources_page": _PAGE,
    "test_ssh_faults": _INGEST,
    "test_ssh_follow": _INGEST,
    "test_ssh_login": _INGEST,
    "test_starting": _INGEST,
    "test_store_append": "one test: of a lake every commit is news; the others are on both",
    "test_store_open": _ONE_MACHINE,
    "test_tailer_kill": _INGEST,
}


def test_every_other_test_of_the_store_runs_on_both() -> None:
    here = Path(__file__)
    opens = {
        path.stem
        for path in here.parent.glob("test_*.py")
        if path != here
        and not path.stem.startswith("test_lake")  # what only a lake has
        and re.search(r"\bStore\.open\(", path.read_text(encoding="utf-8"))
    }
    assert opens == set(FILE_ALONE)
