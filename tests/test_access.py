"""Who may open the pages: this machine, and from elsewhere only whom the user has let in."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from starlette.datastructures import Headers

from dashboard.access import Access, refusal
from dashboard.access_file import for_address, from_elsewhere, read
from dashboard.gate import may_enter
from data.errors import AccessError
from tests.command import fails, run
from tests.oidc import CLIENT_ID, CLIENT_SECRET, Provider, provider
from tests.server import browser, free_port, served
from tests.test_safe_settings import handshake, listening_addresses

WAIT_MS = 60_000
PROXY = """
url = "https://servescope.example.org"
[proxy]
addresses = ["127.0.0.2", "10.1.0.0/24"]
user_header = "X-Forwarded-Email"
groups_header = "X-Forwarded-Groups"
[allow]
emails = ["ann@example.org", "*@team.example.org"]
groups = ["inference"]
"""
OIDC = """
[auth]
redirect_uri = "http://localhost:{port}/oauth2callback"
cookie_secret = "a cookie secret of the test, long enough"
client_id = "{client}"
client_secret = "{secret}"
server_metadata_url = "{url}/.well-known/openid-configuration"
[allow]
emails = ["ann@example.org"]
groups = ["inference"]
"""


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "access.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def oidc_text(url: str = "http://127.0.0.1:1", port: int = 8501) -> str:
    return OIDC.format(port=port, client=CLIENT_ID, secret=CLIENT_SECRET, url=url)


def test_loopback_needs_nothing() -> None:
    for address in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        assert for_address(address, 8501, None) == Access()


def test_how_other_machines_open_the_pages_is_told() -> None:
    line = from_elsewhere(Access(), 8502)
    assert line.startswith("From another machine: ssh -N -L 8502:127.0.0.1:8502 ")
    named = from_elsewhere(Access(url="https://s.example.org", oidc={}), 8502)
    assert named == "Others open https://s.example.org (everybody signs in)"


def test_up_refuses_to_be_open_to_everybody(tmp_path: Path) -> None:
    line = fails("up", "--address", "0.0.0.0", "--store", tmp_path / "s.duckdb")
    assert line.startswith("servescope: address 0.0.0.0: other machines could open the pages")
    assert "--auth FILE" in line
    assert "ssh -N -L 8501:127.0.0.1:8501 HOST" in line
    assert not (tmp_path / "s.duckdb").exists()
    for address in ("::", "192.0.2.7", "2001:db8::1"):
        with pytest.raises(AccessError, match="nobody says who may"):
            for_address(address, 8501, None)
    with pytest.raises(AccessError, match="is no IP address"):
        for_address("gpu1", 8501, None)


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("[[[", 0o600, "is no TOML"),
        ("", 0o600, "needs either [auth] or [proxy]"),
        (PROXY + "[auth]\n", 0o600, "needs either [auth] or [proxy]"),
        (PROXY + "[other]\n", 0o600, "'other' is not understood"),
        (PROXY.replace("127.0.0.2", "the proxy"), 0o600, "'the proxy' is no address"),
        (PROXY.replace('["127.0.0.2", "10.1.0.0/24"]', "[]"), 0o600, "[proxy] has no addresses"),
        (PROXY.replace("X-Forwarded-Email", "Host"), 0o600, "no header that can name a user"),
        (PROXY.replace("user_header", "header"), 0o600, "[proxy] header is not understood"),
        (PROXY.replace("https://", "ftp://"), 0o600, "is no address such as https://"),
        (PROXY.replace("url =", "# "), 0o600, "url is missing"),
        (PROXY.partition("[allow]")[0], 0o600, "[allow] names nobody"),
        (PROXY.replace('["inference"]', '"inference"'), 0o600, "[allow] groups is no list"),
        (oidc_text().replace("client_id", "client"), 0o600, "[auth] has no client_id"),
        (oidc_text().replace("a cookie secret of the test, long", "x"), 0o600, "fewer than 32"),
        (oidc_text().replace("oauth2callback", "callback"), 0o600, "does not end with"),
        (oidc_text(), 0o640, "other users can read it; chmod 600"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_file_is_one_line(
    tmp_path: Path, text: str, mode: int, says: str
) -> None:
    path = written(tmp_path, text, mode)
    with pytest.raises(AccessError) as told:
        read(path)
    assert says in str(told.value)
    assert str(told.value).startswith(f"{path}: ")
    assert "\n" not in str(told.value)


def test_sign_in_without_its_packages_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.access_file.find_spec", lambda name: None)
    with pytest.raises(AccessError, match=r"pip install '\.\[login\]'"):
        read(written(tmp_path, oidc_text()))


def test_the_file_says_who() -> None:
    access = Access(emails=frozenset({"ann@example.org", "*@team.example.org"}),
                    groups=frozenset({"inference"}))  # fmt: skip
    assert access.admits("Ann@Example.org ", [])
    assert access.admits("bob@team.example.org", ["x"])
    assert access.admits("eve@evil.example", ["x", "inference"])
    assert not access.admits("ann@example.org.evil.example", [])
    assert not access.admits("eve@sub.team.example.org", [])
    assert not access.admits("", [])
    assert may_enter(access, {"email": "ann@example.org"})
    assert may_enter(access, {"email": "x@y", "groups": ["inference"]})
    assert not may_enter(access, {"email": "ann@example.org", "email_verified": False})
    assert not may_enter(access, {"groups": "inference"})
    assert not may_enter(access, {})


def test_an_origin_must_be_that_of_the_pages() -> None:
    url = "https://servescope.example.org"
    host = {"host": "servescope.example.org"}
    for origin, welcome in ((url, True), ("https://evil.example", False), ("null", False)):
        given = Headers({**host, "origin": origin})
        assert (refusal(given, ["servescope.example.org"], url) is None) is welcome


def ask(port: int, path: str, source: str = "127.0.0.1", **headers: str) -> int:
    """The status for a request from this address."""
    connection = http.client.HTTPConnection("127.0.0.1", port, 20, source_address=(source, 0))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("GET", path, headers=named)
        return connection.getresponse().status
    finally:
        connection.close()


def test_only_the_proxy_may_ask_and_only_for_whom_the_list_has(tmp_path: Path) -> None:
    auth, store = written(tmp_path, PROXY, 0o644), tmp_path / "s.duckdb"
    arguments = ("up", "--address", "0.0.0.0", "--auth", str(auth), "--store", str(store))
    with served(*arguments) as url:
        port = int(url.rpartition(":")[2])
        assert listening_addresses(port) == {"00000000"}
        proxy: dict[str, Any] = {"source": "127.0.0.2", "Host": "servescope.example.org"}
        ann = {"X_Forwarded_Email": "ann@example.org"}
        assert ask(port, "/", **proxy, **ann) == 200
        assert (
            ask(port, "/", **proxy, X_Forwarded_Email="x@y", X_Forwarded_Groups="a, inference")
            == 200
        )
        assert ask(port, "/", **proxy, X_Forwarded_Email="eve@evil.example") == 403
        assert ask(port, "/", **proxy) == 403
        assert ask(port, "/", **{**proxy, "source": "127.0.0.1"}, **ann) == 403
        assert ask(port, "/", **{**proxy, "Host": f"127.0.0.1:{port}"}, **ann) == 403
        assert ask(port, "/", Host=f"127.0.0.1:{port}") == 403
        stream, shake = "/_stcore/stream", handshake()
        own = {"Origin": "https://servescope.example.org"}
        assert ask(port, stream, **proxy, **ann, **shake, **own) == 101
        assert ask(port, stream, **proxy, **shake, **own) == 403
        assert ask(port, stream, **proxy, **ann, **shake, Origin="https://evil.example") == 403
        assert ask(port, stream, **{**proxy, "source": "127.0.0.1"}, **ann, **shake) == 403
        # Other commands still reach it from this machine, and from nowhere else.
        assert run("runs", "--store", store).returncode == 0
        assert ask(port, "/servescope/control", **proxy, **ann) == 403


@contextmanager
def signed(tmp_path: Path, server: Provider) -> Iterator[str]:
    """A server that everybody signs in to at this provider."""
    port = free_port()
    auth = written(tmp_path, oidc_text(server.url, port))
    command = ("up", "--auth", str(auth), "--store", str(tmp_path / "s.duckdb"))
    with served(*command, port=port):
        yield f"http://localhost:{port}"


def sign_in(page: Page, url: str) -> None:
    page.goto(f"{url}/explore")
    heading = page.get_by_test_id("stHeading").first
    expect(heading).to_contain_text("Sign in to see this server.", timeout=WAIT_MS)
    assert page.get_by_test_id("stTextArea").count() == 0
    page.get_by_role("button", name="Sign in").click()


def test_whoever_signs_in_and_is_on_the_list_sees_the_pages(tmp_path: Path) -> None:
    ann = {"email": "ann@example.org", "email_verified": True}
    with provider(ann) as server, signed(tmp_path, server) as url, browser() as chromium:
        page = chromium.new_page()
        sign_in(page, url)
        expect(page.get_by_text("Signed in as ann@example.org")).to_be_visible(timeout=WAIT_MS)
        expect(page.get_by_text("No log is followed and nothing is stored.")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=WAIT_MS)
        server.user = {"email": "eve@evil.example", "email_verified": True}
        page.context.clear_cookies()
        sign_in(page, url)
        heading = page.get_by_test_id("stHeading").first
        expect(heading).to_contain_text("This account may not see", timeout=WAIT_MS)
        expect(page.get_by_text("Signed in as eve@evil.example.")).to_be_visible()
        assert page.get_by_text("No log is followed").count() == 0


def test_networks_of_proxies_are_read(tmp_path: Path) -> None:
    access = for_address("192.0.2.7", 8501, written(tmp_path, PROXY))
    assert access.proxies == (ip_network("127.0.0.2/32"), ip_network("10.1.0.0/24"))
    assert access.hosts == ("servescope.example.org", "192.0.2.7")
    assert json.dumps(sorted(access.groups)) == '["inference"]'
