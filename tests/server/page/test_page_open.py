"""`antiphon serve --open` as a user has it: a browser is started with an address, and its page manages the server."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from antiphon.server.serving.setup.run_file import local_servers
from support.browser.watched_page import watched_page
from support.server.serve_command import ServeCommand
from support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow]
#: In place of a browser: it writes down what it was started with.
RECORDER = """#!/bin/sh
echo "$@" > {path}.partial && mv {path}.partial {path}
"""


@pytest.fixture
def opened(chat_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address that the browser of `antiphon serve --open` was started with."""
    recorder, record = tmp_path / "browser", tmp_path / "address"
    recorder.write_text(RECORDER.format(path=record))
    recorder.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(recorder))
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    command = ServeCommand(str(chat_folder), "--port", "0", "--kv-memory", "16", "--open")
    try:
        command.wait_until_ready()
        wait_until(record.exists, "the browser to be opened", seen=command.text)
        yield record.read_text().strip()
    finally:
        command.process.send_signal(signal.SIGTERM)
        assert command.wait_for_end() == 0, command.text()


def test_the_page_that_is_opened_manages_the_server_and_its_address_works_once(
    profile: BrowserContext, opened: str
) -> None:
    url, _, ticket = opened.partition("/#ticket=")
    (server,) = local_servers()
    assert server.url == url and ticket and server.admin_token is not None and server.admin_token not in opened
    with watched_page(profile, url) as watched:
        page = watched.page
        page.goto(opened)
        page.get_by_role("link", name="Models").click()
        expect(page.get_by_role("button", name="Unload").first).to_be_visible()
        assert ticket not in page.url
        history = watched.context.new_cdp_session(page).send("Page.getNavigationHistory")
        assert not any(ticket in entry["url"] for entry in history["entries"])
    with watched_page(profile, url) as watched:
        watched.expect_fault("status of 40[13]")
        page = watched.page
        page.goto(opened)
        page.get_by_role("link", name="Models").click()
        dialog = page.get_by_role("dialog", name="Admin key")
        expect(dialog.get_by_role("alert")).to_contain_text("used already or has expired")
        expect(dialog.locator("code").first).to_have_text("antiphon serve --open")
        expect(dialog).not_to_contain_text("`")
        watched.check_accessible()
