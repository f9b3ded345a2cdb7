"""Who may talk to the server: this machine's own pages, and whom the user has let in.

Streamlit checks Host and Origin of the WebSocket alone, and to judge a foreign Origin it asks
the internet for this machine's outer address. This guard stands before it, covers every route
and asks nobody. It defends against DNS rebinding and against pages of other sites.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOCAL_HOSTS: Final = ("127.0.0.1", "localhost", "::1")
OWN_ROUTES: Final = "/servescope/"  # of other commands on this machine
# What a proxy adds: then the loopback address it comes from says nothing of who asks.
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class Access:
    """Who else is let in; without anything, nobody.

    Attributes:
        url: where other machines open the pages; None: they do not.
        hosts: names that stand in the Host header of these.
        proxies: the addresses that alone may ask, each time for a user.
        user_header, groups_header: where the proxy names the user, and its groups.
        oidc: Streamlit's own [auth] settings; None: nobody signs in here.
        emails: who is let in, in lower case; "*@example.org" is everybody there.
        groups: likewise by group.
    """

    url: str | None = None
    hosts: tuple[str, ...] = ()
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    user_header: str | None = None
    groups_header: str | None = None
    oidc: Mapping[str, Any] | None = None
    emails: frozenset[str] = field(default_factory=frozenset)
    groups: frozenset[str] = field(default_factory=frozenset)

    def admits(self, email: str, groups: Sequence[str]) -> bool:
        """Whether this user is on the list."""
        known = email.strip().lower()
        domain = "*@" + known.rpartition("@")[2]
        return known in self.emails or domain in self.emails or not self.groups.isdisjoint(groups)


NOBODY_ELSE: Final = Access()


class Guard:
    """ASGI middleware: whoever may not ask is answered with 403.

    Once somebody else is let in, nobody is spared: behind a proxy on this machine everything comes
    from the loopback address. Only other commands on this machine go on without, by their token.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        reason = self._refusal(scope, Headers(scope=scope))
        if reason is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse(reason + "\n", status_code=403)(scope, receive, send)
        else:
            await receive()  # the connect message; closing before accepting answers 403
            await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})

    def _refusal(self, scope: Scope, headers: Headers) -> str | None:
        """Why a request is refused; None when it is welcome."""
        access = self._access
        own = scope["path"].startswith(OWN_ROUTES)
        if access.url is None or own:
            reason = refusal(headers, LOCAL_HOSTS)
            if reason is None and _is_forwarded(headers):
                return "refused: a proxy asks, and none is named; docs/access.md says how"
            if reason is None and own and not _is_loopback(scope):
                return "refused: only from this machine"
            return reason
        reason = refusal(headers, access.hosts, access.url)
        return self._of_proxy(scope, headers) if reason is None and access.proxies else reason

    def _of_proxy(self, scope: Scope, headers: Headers) -> str | None:
        """Why a request that must come from a proxy, for a user, is refused."""
        access = self._access
        client = _address(scope.get("client"))
        if client is None or not any(client in network for network in access.proxies):
            return "refused: only the proxy may ask"
        users = headers.getlist(access.user_header or "")
        if len(users) != 1 or not users[0].strip():
            return "refused: the proxy does not name the user"
        groups = headers.getlist(access.groups_header) if access.groups_header else []
        named = [name.strip() for value in groups for name in value.split(",")]
        return None if access.admits(users[0], named) else "refused: this user is not on the list"


def _is_loopback(scope: Scope) -> bool:
    """Whether both ends of the connection are on this machine."""
    ends = (_address(scope.get("client")), _address(scope.get("server")))
    return all(end is not None and end.is_loopback for end in ends)


def _is_forwarded(headers: Headers) -> bool:
    return any(name in headers for name in _FORWARDED)


def _address(end: Sequence[Any] | None) -> Any:
    """The IP address of an end of a connection; None where it has none."""
    try:
        address = ip_address(str(end[0]).partition("%")[0]) if end else None
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def refusal(headers: Headers, hosts: Collection[str], url: str | None = None) -> str | None:
    """Why a request with these headers is refused; None when it is welcome.

    Args:
        hosts: the names under which the pages are served, without a port.
        url: the address of the pages for others, whose origin is ours too.
    """
    host_header = headers.get("host", "")
    if _host_name(host_header) not in hosts:
        return f"refused: open this page as {url or 'http://localhost or http://127.0.0.1'}"
    origin = headers.get("origin")
    ours = {host_header.lower(), _origin_place(url) if url else None}
    if origin is not None and (_origin_place(origin) or "") not in ours:
        return "refused: the request comes from a page of another site"
    return None


def _host_name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname if parts.username is None and not parts.path else None
    except ValueError:
        return None


def _origin_place(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") else None
