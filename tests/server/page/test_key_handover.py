"""Tickets for the admin key: valid once, for a short time, for pages of this server in a browser on this machine."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from antiphon.runtime.process.client import EngineClient
from antiphon.server.app import create_app
from antiphon.server.page.handover import TICKET_SECONDS, KeyHandover
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.errors import ApiError

KEY = "an-admin-key-for-the-page"
URL = "http://127.0.0.1:8000"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_ticket_is_valid_once() -> None:
    handover = KeyHandover()
    ticket = handover.issue(KEY)
    assert KEY not in ticket
    for wrong in ("", "wrong", ticket + "x", "ü" * 43):
        with pytest.raises(ApiError):
            handover.redeem(wrong)
    assert handover.redeem(ticket) == KEY
    with pytest.raises(ApiError, match="used already or has expired"):
        handover.redeem(ticket)


def test_a_ticket_expires_and_gives_way_to_a_later_one() -> None:
    clock = Clock()
    handover = KeyHandover(clock)
    first, second = handover.issue(KEY), handover.issue(KEY)
    with pytest.raises(ApiError):
        handover.redeem(first)
    clock.now += TICKET_SECONDS - 1
    assert handover.redeem(second) == KEY
    last = handover.issue(KEY)
    clock.now += TICKET_SECONDS
    with pytest.raises(ApiError):
        handover.redeem(last)


@pytest.fixture
def app() -> FastAPI:
    return create_app(ServerConfig(models=(), admin_keys=KeyRing([KEY]), offline=True), EngineClient({}, offline=True))


def post(app: FastAPI, body: Any, client: str = "127.0.0.1", **headers: str) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(client, 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=URL) as page:
            return await page.post("/page/ticket", json=body, headers=headers)

    return asyncio.run(send())


def test_a_page_of_this_server_gets_the_key(app: FastAPI) -> None:
    ticket = app.state.key_handover.issue(KEY)
    assert post(app, {"ticket": ticket}, origin=URL).json() == {"admin_key": KEY}
    again = post(app, {"ticket": ticket}, origin=URL)
    assert (again.status_code, again.json()["error"]["code"]) == (403, "invalid_ticket")


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"origin": "http://evil.example"}, 403, "invalid_origin"),
        ({"host": "evil.example"}, 403, "invalid_host"),
        ({"client": "192.0.2.7"}, 403, "not_local"),
        ({"content-type": "text/plain"}, 415, "unsupported_media_type"),
    ],
)
def test_nobody_else_does(app: FastAPI, given: dict[str, str], status: int, code: str) -> None:
    ticket = app.state.key_handover.issue(KEY)
    answer = post(app, {"ticket": ticket}, **given)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code) and KEY not in answer.text
    assert post(app, {"ticket": ticket}).json() == {"admin_key": KEY}, "the ticket is still valid for its page"


@pytest.mark.parametrize("body", [{}, {"ticket": None}, {"ticket": "x" * 201}, {"ticket": "x" * 5000}, []])
def test_wrong_bodies(app: FastAPI, body: Any) -> None:
    assert post(app, body).status_code in (400, 413)
