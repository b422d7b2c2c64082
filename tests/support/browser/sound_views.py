"""What the tests of Speak and Transcribe share: words that were lit, sound that is heard, files that are dropped."""

from __future__ import annotations

import base64
from pathlib import Path

from playwright.sync_api import Locator, Page

from support.browser.watched_page import wait_on_page

#: A word may be lit for less time than a test looks away, so the page notes them.
NOTE = """([name, selector]) => {
  const found = (window[name] = []);
  const note = () => {
    const text = document.querySelector(selector)?.textContent;
    if (text && text !== found.at(-1)) found.push(text);
  };
  const kinds = { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["class"] };
  new MutationObserver(note).observe(document.body, kinds);
}"""
#: The loudest sample that the page's own analyser hears of what the view Speak plays.
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
    """Note every text that the first element of a selector has from now on, under a name."""
    page.evaluate(NOTE, [name, selector])


def noted_texts(page: Page, name: str) -> list[str]:
    found: list[str] = page.evaluate("(name) => window[name]", name)
    return found


def wait_until_heard(page: Page) -> None:
    """Wait until the page's own analyser hears what the view Speak plays."""
    wait_on_page(page, f"{LEVEL} > 0.02")


def drop(target: Locator, files: list[tuple[str, str, bytes]]) -> None:
    """Files `(name, type, content)` are dragged over an element and dropped on it."""
    encoded = [[name, kind, base64.b64encode(content).decode()] for name, kind, content in files]
    transfer = target.page.evaluate_handle(DROP, encoded)
    for event in ("dragover", "drop"):
        target.dispatch_event(event, {"dataTransfer": transfer})


def downloaded(page: Page, button: Locator) -> tuple[str, bytes]:
    """The name and the content of the file that a button saves."""
    with page.expect_download() as saved:
        button.click()
    return saved.value.suggested_filename, Path(saved.value.path()).read_bytes()
