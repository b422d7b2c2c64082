"""Voices of a real model on the web page: one is chosen, another is mixed in, and the mixture is heard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, expect

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.browser.sound_views import downloaded, wait_until_heard
from support.browser.watched_page import PHONE, watched_page
from support.server.http_server import RunningServer
from support.server.pool import ServerPool

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.weights]
MODEL = "kokoro-82m"
TEXT = "Good morning."


@pytest.fixture
def speaking(servers: ServerPool, model_path: Callable[[str], Path], stored_files: Path) -> Iterator[RunningServer]:
    model_path(MODEL)
    config = ServerConfig(models=(ModelSpec.of(MODEL),), files_dir=stored_files / "voices", offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


def spoken(server: RunningServer, voice: str) -> bytes:
    body = {"model": MODEL, "input": TEXT, "voice": voice, "response_format": "wav"}
    answer = httpx.post(server.url + "/v1/audio/speech", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.mark.long("a server with the large voice is started")
def test_a_mixture_is_heard_and_saved(profile: BrowserContext, speaking: RunningServer) -> None:
    with watched_page(profile, speaking.url) as watched:
        page = watched.open("speak")
        page.get_by_label("Text", exact=True).fill(TEXT)
        page.get_by_role("combobox", name="Voice", exact=True).select_option("af_bella")
        page.get_by_role("button", name="Mix with another voice").click()
        page.get_by_role("combobox", name="Voice 2", exact=True).select_option("bm_george")
        share = page.get_by_label("Share of bm_george")
        share.evaluate("(slider) => { slider.value = 75; slider.dispatchEvent(new Event('input')); }")
        expect(page.locator(".mixture")).to_have_text("af_bella:0.4+bm_george:0.6")
        watched.check_accessible()
        with page.expect_response("**/v1/audio/speech") as answer:
            page.get_by_role("button", name="Speak", exact=True).click()
        assert answer.value.ok
        assert json.loads(answer.value.request.post_data or "")["voice"] == "af_bella:0.4+bm_george:0.6"
        wait_until_heard(page)
        expect(page.locator(".reader")).to_have_attribute("data-state", "ended")
        page.get_by_label("Sound format").select_option("wav")
        _, saved = downloaded(page, page.get_by_role("button", name="Sound", exact=True))
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert saved == spoken(speaking, "af_bella:0.4+bm_george:0.6")
    assert saved not in (spoken(speaking, "af_bella"), spoken(speaking, "bm_george"))
