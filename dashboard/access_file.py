"""Reads who may open the pages from other machines: the file of `up --auth`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from getpass import getuser
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from pathlib import Path
from socket import gethostname
from typing import Any, Final
from urllib.parse import urlsplit

from dashboard.access import NOBODY_ELSE, Access
from data.errors import AccessError

SEE: Final = "docs/access.md says how"
_CALLBACK: Final = "/oauth2callback"
_OIDC: Final = (
    "redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url",
)  # fmt: skip
_SECRET_CHARS: Final = 32
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+")
_TAKEN: Final = ("host", "origin", "cookie", "connection", "upgrade", "authorization")


def for_address(address: str, port: int, auth: Path | None) -> Access:
    """Who is let in when the pages are served at this address.

    AccessError where others could reach them and nobody says who may.
    """
    try:
        loopback = address == "localhost" or ip_address(address).is_loopback
    except ValueError as error:
        raise AccessError(
            f"address {address!r}: is no IP address; an example is 0.0.0.0"
        ) from error
    if auth is None:
        if loopback:
            return NOBODY_ELSE
        raise AccessError(
            f"address {address}: other machines could open the pages and nobody says who may. Give "
            f"--auth FILE ({SEE}), or leave --address away and forward the port: "
            f"ssh -N -L {port}:127.0.0.1:{port} HOST"
        )
    access = read(auth)
    if not loopback and not ip_address(address).is_unspecified:
        access = replace(access, hosts=tuple(dict.fromkeys((*access.hosts, address))))
    return access


def from_elsewhere(access: Access, port: int) -> str:
    """How other machines open the pages, in a line."""
    if access.url is not None:
        how = "its proxy names the user" if access.oidc is None else "everybody signs in"
        return f"Others open {access.url} ({how})"
    return (
        f"From another machine: ssh -N -L {port}:127.0.0.1:{port} {_user()}@{gethostname()}, "
        f"then http://127.0.0.1:{port} there"
    )


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user often has no name
        return "USER"


def read(path: Path) -> Access:
    """The content of the file; AccessError says in one line what is wrong with it."""
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
        values = tomllib.loads(text)
    except OSError as error:
        raise AccessError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AccessError(f"{path}: is no TOML ({error})") from error
    unknown = values.keys() - {"url", "auth", "proxy", "allow"}
    if unknown:
        raise AccessError(f"{path}: {min(unknown)!r} is not understood; {SEE}")
    if ("auth" in values) == ("proxy" in values):
        raise AccessError(f"{path}: needs either [auth] or [proxy]; {SEE}")
    try:
        emails, groups = (_texts(values, "allow", name) for name in ("emails", "groups"))
        if not emails and not groups:
            raise AccessError("[allow] names nobody: give emails or groups")
        if "proxy" in values:
            access = _proxy(values)
        else:
            if mode & 0o077:
                raise AccessError("holds secrets and other users can read it; chmod 600")
            access = _oidc(values)
    except AccessError as error:
        raise AccessError(f"{path}: {error}; {SEE}") from error
    return replace(
        access, emails=frozenset(email.lower() for email in emails), groups=frozenset(groups)
    )


def _oidc(values: Mapping[str, Any]) -> Access:
    auth = values["auth"]
    for name in _OIDC:
        if not isinstance(auth, dict) or not isinstance(auth.get(name), str) or not auth[name]:
            raise AccessError(f"[auth] has no {name}")
    if len(auth["cookie_secret"]) < _SECRET_CHARS:
        raise AccessError(f"[auth] cookie_secret has fewer than {_SECRET_CHARS} characters")
    if not auth["redirect_uri"].endswith(_CALLBACK):
        raise AccessError(f"[auth] redirect_uri does not end with {_CALLBACK}")
    if find_spec("authlib") is None or find_spec("httpx") is None:
        raise AccessError(
            "[auth] needs two more packages: pip install '.[login]' in Servescope's folder"
        )
    url = values.get("url", auth["redirect_uri"].removesuffix(_CALLBACK))
    return Access(url=url, hosts=(_host(url),), oidc=auth)


def _proxy(values: Mapping[str, Any]) -> Access:
    proxy = values["proxy"]
    unknown = proxy.keys() - {"addresses", "user_header", "groups_header"}
    if unknown:
        raise AccessError(f"[proxy] {min(unknown)} is not understood")
    networks = []
    for text in _texts(values, "proxy", "addresses"):
        try:
            networks.append(ip_network(text))
        except ValueError as error:
            raise AccessError(f"[proxy] {text!r} is no address and no network") from error
    if not networks:
        raise AccessError("[proxy] has no addresses")
    headers = [proxy.get("user_header"), proxy.get("groups_header")]
    for name, value in zip(("user_header", "groups_header"), headers, strict=True):
        if value is None and name == "groups_header":
            continue
        good = isinstance(value, str) and _HEADER.fullmatch(value)
        if not good or str(value).lower() in _TAKEN:
            raise AccessError(f"[proxy] {name} = {value!r} is no header that can name a user")
    if not isinstance(values.get("url"), str):
        raise AccessError("url is missing: where the browser opens the pages")
    url = values["url"]
    return Access(
        url=url, hosts=(_host(url),), proxies=tuple(networks),
        user_header=headers[0], groups_header=headers[1],
    )  # fmt: skip


def _host(url: Any) -> str:
    parts = urlsplit(url if isinstance(url, str) else "")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise AccessError(f"url = {url!r} is no address such as https://servescope.example.org")
    return parts.hostname


def _texts(values: Mapping[str, Any], table: str, name: str) -> list[str]:
    """A list of texts of a table; empty if it is not there."""
    section = values.get(table, {})
    found = section.get(name, []) if isinstance(section, dict) else None
    if not isinstance(found, list) or not all(isinstance(text, str) and text for text in found):
        raise AccessError(f"[{table}] {name} is no list of texts")
    return found
