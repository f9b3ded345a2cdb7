"""The safe server settings hold wherever the server is started, whatever lies in the folder."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from dashboard.access import LOCAL_HOSTS, refusal
from tests.server import served_anew

HOSTILE = """
[server]
address = "0.0.0.0"
allowedHosts = ["*"]
enableCORS = false
enableXsrfProtection = false
enableStaticServing = true
enableAgentApi = true
maxUploadSize = 4000
baseUrlPath = "elsewhere"
[client]
showErrorDetails = "full"
disableDataExport = false
[browser]
gatherUsageStats = true
[global]
developmentMode = true
"""
ENVIRONMENT = {
    "STREAMLIT_SERVER_ADDRESS": "0.0.0.0",
    "STREAMLIT_SERVER_ENABLE_CORS": "false",
    "STREAMLIT_SERVER_COOKIE_SECRET": "known to others",
    "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "true",
}
# Pins, has Streamlit parse everything anew the way its own starters do, and shows what stands.
SHOW = """
import json
from dashboard import settings
settings.pin()
from streamlit import config
config.get_config_options(force_reparse=True, options_from_flags={"server.enableCORS": False})
kept = {name: config.get_option(name) for name in settings.safe()}
others = ["global.developmentMode", "server.baseUrlPath", "server.cookieSecret", "secrets.files"]
print(json.dumps([settings.safe(), kept, [config.get_option(name) for name in others]]))
"""


@pytest.fixture
def hostile_folder(tmp_path: Path, own_home: Path) -> Path:
    for folder in (tmp_path, own_home):
        (folder / ".streamlit").mkdir()
        (folder / ".streamlit" / "config.toml").write_text(HOSTILE)
        (folder / ".streamlit" / "secrets.toml").write_text('[auth]\ncookie_secret = "known"\n')
    return tmp_path


def test_files_environment_and_flags_change_nothing(hostile_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW], cwd=hostile_folder, env={**os.environ, **ENVIRONMENT},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    safe, kept, (development, base, secret, secrets) = json.loads(done.stdout)
    assert kept == safe
    assert safe["server.address"] == "127.0.0.1"
    assert safe["server.enableCORS"] is True
    assert safe["client.showErrorDetails"] == "none"
    assert (development, base, secrets) == (False, "", [])
    assert secret != ENVIRONMENT["STREAMLIT_SERVER_COOKIE_SECRET"]


def test_a_broken_config_file_is_not_even_read(tmp_path: Path) -> None:
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text("[[[ not TOML")
    done = subprocess.run([sys.executable, "-c", SHOW], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_real_server_in_a_hostile_folder_serves_this_machine_only(hostile_folder: Path) -> None:
    store = hostile_folder / "store.duckdb"
    with served_anew("up", "--store", str(store), cwd=hostile_folder, env=ENVIRONMENT) as url:
        place = url.removeprefix("http://")
        port = int(place.split(":")[1])
        assert listening_addresses(port) == {"0100007F"}
        assert ask(place, "/") == 200
        assert ask(place, "/live?window=1+h") == 307  # the first page stands at the root
        assert ask(place, "/", Host="evil.example") == 403
        assert ask(place, "/", **{"X-Forwarded-For": "203.0.113.9"}) == 403
        assert ask(place, "/", Host=f"evil.example:{port}") == 403
        assert ask(place, "/_stcore/health", Origin="http://evil.example") == 403
        assert ask(place, "/_stcore/stream", **handshake()) == 101
        assert ask(place, "/_stcore/stream", **handshake(), Origin=url) == 101
        assert ask(place, "/_stcore/stream", **handshake(), Origin="http://evil.example") == 403
        assert ask(place, "/_stcore/stream", **handshake(), Origin="null") == 403
        assert ask(place, "/_stcore/stream", **handshake(), Host=f"evil.example:{port}") == 403


def ask(place: str, path: str, **headers: str) -> int:
    """The status that the server answers with."""
    connection = http.client.HTTPConnection(place, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def handshake() -> dict[str, str]:
    """What a browser sends to open a WebSocket."""
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "c2VydmVzY29wZS10ZXN0IQ==",
    }


def listening_addresses(port: int) -> set[str]:
    """The local addresses, as the kernel writes them, that listen on this port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, number = line.split()[1].split(":")
            if int(number, 16) == port and line.split()[3] == "0A":
                found.add(address)
    return found


@pytest.mark.parametrize(
    ("headers", "welcome"),
    [
        ({"host": "localhost:8501"}, True),
        ({"host": "127.0.0.1:8501", "origin": "http://127.0.0.1:8501"}, True),
        ({"host": "LOCALHOST:8501", "origin": "http://localhost:8501"}, True),
        ({"host": "localhost:8501", "origin": "http://localhost:9999"}, False),
        ({"host": "localhost:8501", "origin": "file://localhost:8501"}, False),
        ({"host": "localhost:8501", "origin": "http://[bad"}, False),
        ({"host": "localhost@evil.example"}, False),
        ({"host": "evil.example"}, False),
        ({"host": ""}, False),
        ({}, False),
    ],
)
def test_host_and_origin_must_be_ours(headers: dict[str, str], welcome: bool) -> None:
    assert (refusal(Headers(headers), LOCAL_HOSTS) is None) is welcome
