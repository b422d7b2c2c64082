"""Views of the web page on a server without the models that they need."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from support.browser.watched_page import WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_views_without_their_models_lead_to_models(watched: WatchedPage) -> None:
    def without_sound(route: Route) -> None:
        told = route.fetch().json()
        told["data"] = [card for card in told["data"] if card["task"] not in ("synthesize", "transcribe")]
        route.fulfill(json=told)

    page = watched.page
    page.route("**/v1/models", without_sound)
    for view, heading in (("speak", "No speech model"), ("transcribe", "No transcription model")):
        watched.open(view)
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        expect(page.locator(".empty").get_by_role("link", name="Models")).to_have_attribute("href", "#/models")
        watched.check_accessible()
    watched.open("talk")
    expect(page.get_by_text("This server has no transcription model and no speech model.")).to_be_visible()
    expect(page.get_by_role("link", name="Models of this server")).to_have_attribute("href", re.compile("#/models"))
    assert page.get_by_role("button", name="Start talking").count() == 0
    watched.check_accessible()
