"""Whoever asks for a page has what it is drawn with loaded meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dashboard import warm
from dashboard.charts import live, series
from dashboard.page_base import PageBase


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    warm.begun.cache_clear()
    series.template.cache_clear()
    yield
    warm.begun.cache_clear()


def answer(_: Request) -> PlainTextResponse:
    return PlainTextResponse("here")


def asked(accept: str) -> str:
    """The answer to a request, which says what it would accept."""

    async def ask() -> str:
        app = PageBase(Starlette(routes=[Route("/runs", answer)]))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
            return (await client.get("http://localhost/runs", headers={"accept": accept})).text

    return asyncio.run(ask())


def test_charts_are_ready_after_the_first_request_for_a_page() -> None:
    assert asked("application/json") == "here"
    assert warm.begun.cache_info().currsize == 0
    for _ in range(2):
        assert asked("text/html") == "here"
    assert warm.begun.cache_info().currsize == 1
    warm.begin().join(60)
    assert series.template.cache_info().currsize == len(live.LOOKS)
