"""The web application: pages, ingest in its lifespan, routes of ours, the guard before all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Route
from streamlit.runtime.pages_manager import PagesManager

from dashboard import context, page_change, settings
from dashboard.access import NOBODY_ELSE, Access, Guard
from dashboard.page_base import PageBase
from data.store import Store

FRAME: Final = Path(__file__).with_name("frame.py")


def build_app(
    store: Store,
    supervisor: context.Supervisor,
    routes: Sequence[BaseRoute] = (),
    bench: context.BenchDesk | None = None,
    access: Access = NOBODY_ELSE,
) -> st.App:
    """The dashboard over this store. Ingest starts and stops with the server."""
    settings.pin(access)
    # Beside the script lies a folder `pages`, which Streamlit would take for pages of its own: the
    # first visitor would get an empty one, were it not the first page that is asked for.
    PagesManager.uses_pages_directory = False
    page_change.hold()
    context.enter(context.Context(store, supervisor, bench, access))

    @asynccontextmanager
    async def lifespan(_app: st.App) -> AsyncIterator[None]:
        supervisor.start()
        try:
            yield
        finally:
            await asyncio.to_thread(supervisor.stop)

    return st.App(
        FRAME,
        lifespan=lifespan,
        routes=[*routes, Route("/live", _to_live)],
        secrets=None if access.oidc is None else {"auth": dict(access.oidc)},
        middleware=[Middleware(Guard, access=access), Middleware(PageBase)],
    )


def _to_live(request: Request) -> RedirectResponse:
    """Streamlit serves its first page at the root and knows no other address of it."""
    return RedirectResponse(f"./?{request.url.query}" if request.url.query else "./")
