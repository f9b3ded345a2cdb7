"""A dashboard beside collectors: what they store is seen on its pages as it comes."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.command import started
from tests.growing import append, decode, sglang_boot
from tests.postgres import Postgres
from tests.server import DEADLINE_S, browser, served, visit

WAIT_MS = DEADLINE_S * 1000
pytestmark = pytest.mark.timeout(600)


def test_a_dashboard_that_may_only_read_shows_what_a_collector_follows(
    postgres: Postgres, tmp_path: Path
) -> None:
    location, log = postgres.lake(tmp_path / "files"), tmp_path / "server.log"
    database = location.rpartition("dbname=")[2]
    postgres.execute("CREATE ROLE reader LOGIN")
    for given in ("", "ALTER DEFAULT PRIVILEGES IN SCHEMA public "):
        tables = "TABLES" if given else "ALL TABLES IN SCHEMA public"
        postgres.execute(f"{given}GRANT SELECT ON {tables} TO reader", database)
    log.write_bytes(sglang_boot() + decode(1, 1))
    collector = ("ingest", str(log), "--store", location)
    reader = ("up", "--store", location.replace("user=postgres", "user=reader"))
    far, near = ({"SERVESCOPE_HOST": name} for name in ("gpu1", "desk"))
    with served(*reader, cwd=tmp_path, env=near) as url, browser() as chromium:
        page = chromium.new_page()
        with started(*collector, cwd=tmp_path, env=far) as (process, _):
            visit(page, url, "Pause")
            strip = page.locator(".st-key-status")
            expect(strip).to_contain_text("following", timeout=WAIT_MS)
            expect(strip).to_contain_text(
                re.compile(r"followed by process \d+ on gpu1"), timeout=WAIT_MS
            )
            expect(page.get_by_role("button", name="Pause")).to_be_enabled(timeout=WAIT_MS)
            for number in (2, 3):
                append(log, decode(10.0 * number, number))
            chosen = page.get_by_role("combobox", name="Server or run")
            expect(chosen).to_have_value(re.compile("server.log, latest start"), timeout=WAIT_MS)
            words = page.get_by_text(re.compile("^Running requests from .*12:00:30"))
            expect(words).to_be_attached(timeout=WAIT_MS)
            page.get_by_role("link", name="Sources").click()
            expect(page.get_by_role("heading", name="1 source: 1 following.")).to_be_visible(
                timeout=WAIT_MS
            )
            expect(page.get_by_text("may only read the store")).to_be_visible(timeout=WAIT_MS)
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_S)
        left = page.get_by_role("heading", name="1 source: 1 not followed.")
        expect(left).to_be_visible(timeout=WAIT_MS)
        page.get_by_role("link", name="Live").click()
        expect(strip).to_contain_text("followed by nobody now", timeout=WAIT_MS)
        with started(*collector, cwd=tmp_path, env=far):
            append(log, decode(40.0, 4))
            later = page.get_by_text(re.compile("^Running requests from .*12:00:40"))
            expect(later).to_be_attached(timeout=WAIT_MS)
            expect(strip).to_contain_text(re.compile(r"process \d+ on gpu1"), timeout=WAIT_MS)
