"""`antiphon serve` as a user has it: a page at the printed address, or opened by `--open`, that manages the server."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from antiphon.server.serving.setup.run_file import LocalServer, local_servers
from antiphon.server.web.access.socket_owner import can_tell_owners
from support.browser.admin_view import enter_admin_key
from support.browser.watched_page import watched_page, watched_tab
from support.server.serve_command import ServeCommand
from support.waiting import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long("a server starts, and a browser opens its page"),
    pytest.mark.skipif(not can_tell_owners(), reason="this system does not show the users of connections"),
]
#: In place of a browser: it writes down what it was started with.
RECORDER = """#!/bin/sh
echo "$@" > {path}.partial && mv {path}.partial {path}
"""
#: Asks another server for its key, in every mode that a page has for it. Returns what the page could read.
THEFT = """async (target) => {
  const json = { "content-type": "application/json" };
  const ask = async (given) => {
    try {
      return await (await fetch(target, { method: "POST", body: "{}", ...given })).text();
    } catch (error) {
      return String(error);
    }
  };
  return [await ask({}), await ask({ headers: json }), await ask({ mode: "no-cors" }),
          await ask({ credentials: "include", headers: json }), await ask({ method: "GET", body: undefined })];
}"""


@contextmanager
def serving(
    chat_folder: Path, home: Path, *options: str, before: str = ""
) -> Iterator[tuple[LocalServer, ServeCommand]]:
    """Run `antiphon serve` with these options until the block ends."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANTIPHON_HOME", str(home))
        command = ServeCommand(str(chat_folder), "--port", "0", "--kv-memory", "16", *options, before=before)
        try:
            command.wait_until_ready()
            (server,) = local_servers()
            yield server, command
        finally:
            command.process.send_signal(signal.SIGTERM)
            assert command.wait_for_end() == 0, command.text()


@pytest.fixture(scope="module")
def server(chat_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server without options about keys, whose API pages of all origins may use."""
    with serving(chat_folder, tmp_path_factory.mktemp("home"), "--cors-origin", "*") as (running, command):
        yield running
        assert running.admin_token is not None and running.admin_token not in command.text()


@pytest.fixture
def other_origin() -> Iterator[str]:
    """The address of another server on this machine, with an empty page."""

    class EmptyPage(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href=data:,>")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as running:
        thread = Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join(60)


def expect_to_manage(page: Page) -> None:
    """Expect the views Models and Engine to work, without a dialog."""
    page.get_by_role("link", name="Models").click()
    expect(page.get_by_role("button", name="Unload").first).to_be_visible()
    page.get_by_role("link", name="Engine").click()
    expect(page.locator(".feed-state")).to_have_text("Live")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_plain_address_manages_the_server_in_every_tab(profile: BrowserContext, server: LocalServer) -> None:
    with watched_page(profile, server.url) as first:
        first.page.goto(server.url)
        expect_to_manage(first.page)
        assert server.admin_token not in first.page.evaluate("JSON.stringify(localStorage)")
        with watched_tab(profile, server.url) as second:
            second.page.goto(server.url)
            expect_to_manage(second.page)


def test_the_page_replaces_the_key_of_an_earlier_server(profile: BrowserContext, server: LocalServer) -> None:
    with watched_page(profile, server.url) as watched:
        watched.expect_fault("status of 401")  # of the earlier key
        enter_admin_key(watched.page, "a-token-of-an-earlier-server")
        watched.page.goto(server.url)
        expect_to_manage(watched.page)
        assert watched.page.evaluate("sessionStorage['antiphon.admin-key']") == server.admin_token


def test_a_page_of_another_port_reads_no_key(profile: BrowserContext, server: LocalServer, other_origin: str) -> None:
    port = server.url.rpartition(":")[2]
    for origin in (other_origin, other_origin.replace("127.0.0.1", "localhost")):
        with watched_page(profile, origin, permissions=()) as thief:
            thief.expect_fault("request to another origin: http://[a-z0-9.]+:[0-9]+/(page/admin-key|v1/models)")
            thief.expect_fault("CORS policy|net::ERR_|status of 40")
            thief.page.goto(origin)
            for host in ("127.0.0.1", "localhost"):
                target = f"http://{host}:{port}"
                told = thief.page.evaluate(THEFT, f"{target}/page/admin-key")
                assert set(told) <= {"", "TypeError: Failed to fetch"}, told
                models = thief.page.evaluate("async (target) => (await fetch(target)).text()", f"{target}/v1/models")
                assert "tiny-chat" in models, "pages of all origins may use the API"


@pytest.mark.slow
def test_the_address_that_is_opened_has_a_ticket_which_the_page_removes(
    profile: BrowserContext, chat_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, record = tmp_path / "browser", tmp_path / "address"
    recorder.write_text(RECORDER.format(path=record))
    recorder.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(recorder))
    # As on a system that does not show the users of connections.
    before = "import antiphon.server.page.handover as handover\nhandover.can_tell_owners = lambda: False"
    with serving(chat_folder, tmp_path / "home", "--open", before=before) as (server, command):
        wait_until(record.exists, "the browser to be opened", seen=command.text)
        opened = record.read_text().strip()
        url, _, ticket = opened.partition("/#ticket=")
        assert server.url == url and ticket and server.admin_token is not None and server.admin_token not in opened
        with watched_page(profile, url) as watched:
            page = watched.page
            page.goto(opened)
            expect_to_manage(page)
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
            expect(dialog.locator("code").last).to_have_text("antiphon serve --open")
            expect(dialog).not_to_contain_text("`")
            watched.check_accessible()
