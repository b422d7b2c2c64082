"""The first minutes: every view of the page on `antiphon serve` without options, keys or models, then in a second tab.

The models are the real defaults. They come from a mirror on this machine.
"""

from __future__ import annotations

import re
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from antiphon.server.serving.setup.run_file import local_servers
from antiphon.weights.catalog.defaults import CHAT_MODEL, DEFAULT_MODELS, SPEECH_MODEL, TRANSCRIPTION_MODEL
from support.browser.chat_view import ask, last_answer, seed_options, wait_for_answer
from support.browser.sound_views import drop, wait_until_heard
from support.browser.talking import ScriptedMicrophone, Witness, begin, preset, sentence
from support.browser.watched_page import WatchedPage, watched_page, watched_tab
from support.fetching.catalog_mirror import catalog_mirror
from support.fetching.registries import LocalHub
from support.server.serve_command import ServeCommand
from support.sound.sounds import wav_bytes

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.weights,
    pytest.mark.long("a default server downloads 750 MB from this machine and uses all of its models twice"),
]
COMPANIONS = ("english-phonemes", "silero-vad", "smart-turn")
QUESTION = "What is the capital of France? Answer with its name."


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """The mirror, which holds each download in the middle of its file until `release`."""
    folder = tempfile.TemporaryDirectory(prefix="antiphon-first-minutes-")  # pytest would keep the models
    names = [*DEFAULT_MODELS.values(), *COMPANIONS]
    with folder, catalog_mirror(names, Path(folder.name), monkeypatch) as mirror:
        mirror.stall = threading.Event()
        yield mirror
        release(mirror)


def release(hub: LocalHub) -> None:
    assert hub.stall is not None
    hub.stall.set()


@pytest.fixture
def served(hub: LocalHub) -> Iterator[ServeCommand]:
    command = ServeCommand("--port", "0")
    try:
        command.url()
        yield command
    finally:
        command.process.send_signal(signal.SIGTERM)
        assert command.wait_for_end() == 0, command.text()


def state_of(page: Page, model: str) -> Locator:
    return page.locator(f".model-state[data-model='{model}']")


def expect_download(page: Page, model: str, total: str) -> None:
    """Wait until the view shows a download that has begun."""
    expect(state_of(page, model)).to_have_attribute("data-state", "downloading")
    expect(state_of(page, model)).to_contain_text(re.compile(rf"[1-9]\d* MB of {total}"))


def open_with_admin_key(watched: WatchedPage, view: str) -> Page:
    """Open a view of the administrator in a tab that has the key."""
    (server,) = local_servers()
    # The page takes a key from its address only when it is loaded, which another query makes the browser do.
    watched.page.goto(f"{watched.url}/?{view}#admin_key={server.admin_token}")
    return watched.open(view)


def write_and_speak(watched: WatchedPage, text: str) -> None:
    page = watched.page
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Speak", exact=True).click()
    wait_until_heard(page)


def drop_a_recording(page: Page) -> None:
    drop(page.locator(".view-transcribe .view-body"), [("asked.wav", "audio/wav", wav_bytes(sentence("country")))])


def expect_transcript(page: Page) -> None:
    expect(page.locator(".record").last).to_have_attribute("data-state", "done")
    expect(page.locator(".record").last).to_contain_text("country")


def hold_a_conversation(page: Page, microphone: ScriptedMicrophone, witness: Witness) -> None:
    begin(page)
    microphone.keep("country")
    microphone.say("country")
    witness.wait_until_heard()
    expect(page.locator(".said.you")).to_contain_text("country")
    page.get_by_role("button", name="End", exact=True).click()


def load_a_model(watched: WatchedPage) -> None:
    page = open_with_admin_key(watched, "models")
    row = page.locator(f".model[data-model='{SPEECH_MODEL}']")
    row.get_by_role("button", name="Unload").click()
    expect(row).to_have_attribute("data-state", "stored")
    row.get_by_role("button", name="Load").click()
    expect(row).to_have_attribute("data-state", "ready")


def watch_the_engine(watched: WatchedPage) -> None:
    page = open_with_admin_key(watched, "engine")
    expect(page.locator(".feed-state")).to_have_text("Live")
    expect(page.locator(f".queues [data-model='{CHAT_MODEL}']")).to_be_visible()


def test_every_view_works_at_once_and_in_a_second_tab(
    profile: BrowserContext, hub: LocalHub, served: ServeCommand
) -> None:
    with watched_page(profile, served.url()) as watched:
        microphone, witness = ScriptedMicrophone(watched.page), Witness(watched.page)
        preset(watched.page, max_tokens=8, detection="semantic_vad")
        page = watched.open()
        expect_download(page, CHAT_MODEL, "491 MB")
        expect(page.locator(".status-word")).to_have_text("Loading models")
        watched.check_accessible()
        seed_options(watched, max_tokens=12, temperature=0)
        ask(page, QUESTION)
        release(hub)  # the question is answered without a reload
        wait_for_answer(page)
        assert "Paris" in last_answer(page)

        watched.open("speak")
        expect(state_of(page, SPEECH_MODEL)).to_contain_text("downloads 16 MB on first use")
        write_and_speak(watched, "The first words of a new server.")
        expect(page.locator(".model-states")).to_have_count(0)

        watched.open("transcribe")
        expect(state_of(page, TRANSCRIPTION_MODEL)).to_contain_text("downloads 151 MB on first use")
        hub.stall = threading.Event()
        drop_a_recording(page)
        expect_download(page, TRANSCRIPTION_MODEL, "151 MB")
        watched.check_accessible()
        release(hub)
        expect_transcript(page)

        watched.open("talk")
        expect(state_of(page, "smart-turn")).to_contain_text("downloads 8.7 MB on first use")
        hold_a_conversation(page, microphone, witness)
        load_a_model(watched)
        watch_the_engine(watched)

        with watched_tab(profile, watched.url) as second:
            microphone, witness = ScriptedMicrophone(second.page), Witness(second.page)
            page = second.open()
            seed_options(second, max_tokens=12, temperature=0)
            ask(page, QUESTION)
            wait_for_answer(page)
            second.open("speak")
            write_and_speak(second, "And again.")
            second.open("transcribe")
            drop_a_recording(page)
            expect_transcript(page)
            second.open("talk")
            expect(page.locator(".model-states")).to_have_count(0)
            hold_a_conversation(page, microphone, witness)
            load_a_model(second)
            watch_the_engine(second)
