"""Helpers for the views Speak and Transcribe: lit words, audible sound, dropped files."""

from __future__ import annotations

import base64
from pathlib import Path

from playwright.sync_api import Locator, Page

from support.browser.watched_page import wait_on_page

#: Script that records texts on the page, since a word may be lit only between two looks of a test.
NOTE = """([name, selector]) => {
  const found = (window[name] = []);
  const note = () => {
    const text = document.querySelector(selector)?.textContent;
    if (text && text !== found.at(-1)) found.push(text);
  };
  const kinds = { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["class"] };
  new MutationObserver(note).observe(document.body, kinds);
}"""
#: Peak sample that the page's own analyser measures while the view Speak plays.
LEVEL = """await (async () => {
  const main = document.querySelector('script[type="module"]').src;
  const { speech } = await import(new URL("../views/speak/speech.js", main));
  const samples = new Float32Array(2048);
  speech.value?.player.analyser.getFloatTimeDomainData(samples);
  return Math.max(...samples.map(Math.abs));
})()"""
DROP = """(files) => {
  const transfer = new DataTransfer();
  for (const [name, type, content] of files)
    transfer.items.add(new File([Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0))], name, { type }));
  return transfer;
}"""


def note_texts(page: Page, name: str, selector: str) -> None:
    """Record under `name` every text that the first element matching `selector` has from now on."""
    page.evaluate(NOTE, [name, selector])


def noted_texts(page: Page, name: str) -> list[str]:
    found: list[str] = page.evaluate("(name) => window[name]", name)
    return found


def wait_until_heard(page: Page) -> None:
    """Wait until the page's own analyser measures sound in the view Speak."""
    wait_on_page(page, f"{LEVEL} > 0.02")


def drop(target: Locator, files: list[tuple[str, str, bytes]]) -> None:
    """Drag files `(name, type, content)` over an element and drop them on it."""
    encoded = [[name, kind, base64.b64encode(content).decode()] for name, kind, content in files]
    transfer = target.page.evaluate_handle(DROP, encoded)
    for event in ("dragover", "drop"):
        target.dispatch_event(event, {"dataTransfer": transfer})


def downloaded(page: Page, button: Locator) -> tuple[str, bytes]:
    """Click a button that saves a file; return the file's name and content."""
    with page.expect_download() as saved:
        button.click()
    return saved.value.suggested_filename, Path(saved.value.path()).read_bytes()
