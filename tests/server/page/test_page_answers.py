"""What an answer on the web page can hold: Markdown, reasoning, calls of tools, and sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from antiphon.server.setup.config import ModelSpec, ServerConfig
from support.browser.chat_view import ENDLESS, ask, seed_options, wait_for_answer
from support.browser.watched_page import WatchedPage, watched_page
from support.server.http_server import RunningServer, running_server

pytestmark = pytest.mark.browser

TOOL_MODEL = "qwen2.5-coder-0.5b"

#: Each with what would be parsed wrongly if a part were final too early.
TEXTS = (
    "1. **Use:**\n   ```\n   code\n   ```\n2. two\n\n3. three\n\nafter\n",
    "# Head\n\ntext\nSetext\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend",
    "- one\n\n  more of one\n- [x] two\n\n> quote\n> more\n\n***\n",
    "```py\nprint(1 < 2)\n\n# not a heading\n```\nend *it* `c` **b",
    "a <b>bold</b> word, a<br>break, CRLF\r\nand\r\n\r\nnext",
)
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![pixel](http://elsewhere.example/pixel.png)",
    '<a href="data:text/html,hello" style="position:fixed" class="dialog" id="app">x</a>',
    "<svg onload=alert(1)><style>*{display:none}</style>",
)


def markdown(page: Page, script: str, argument: Any) -> Any:
    """What a script gets from `lib/markdown.js`, the page's own copy."""
    source = """async (argument) => {
      const main = document.querySelector("script[type=module]").src;
      const library = await import(main.replace("app/main.js", "lib/markdown.js"));
      return (SCRIPT)(library, argument);
    }"""
    return page.evaluate(source.replace("SCRIPT", script), argument)


@pytest.mark.parametrize("text", TEXTS)
def test_markdown_that_grows_by_characters_is_that_of_the_whole(watched: WatchedPage, text: str) -> None:
    whole, grown, num_kept = markdown(
        watched.open(),
        """({ GrowingMarkdown }, text) => {
          const html = (blocks) => blocks.map((block) => block.html);
          const growing = new GrowingMarkdown();
          const long = text + "\\n\\nlast words";
          let blocks = [];
          for (let end = 1; end <= text.length; end += 1) blocks = growing.update(text.slice(0, end));
          const again = growing.update(long);
          const numKept = growing.update(long + " more").filter((block, index) => block === again[index]).length;
          return [html(new GrowingMarkdown().update(text)), html(blocks), numKept];
        }""",
        text,
    )
    assert grown == whole and num_kept > 0


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_cannot_run_or_load_anything(watched: WatchedPage, text: str) -> None:
    page = watched.open()
    html = markdown(page, "({ GrowingMarkdown }, text) => new GrowingMarkdown().update(text)[0].html", text)
    found = page.evaluate(
        """(html) => {
          const nodes = [...new DOMParser().parseFromString(html, "text/html").body.querySelectorAll("*")];
          const given = (node) => [...node.attributes].map(({ name, value }) => `${name}=${value}`);
          return nodes.map((node) => [node.localName, ...given(node)]);
        }""",
        html,
    )
    for name, *attributes in found:
        assert name in ("p", "a", "b"), html
        assert not [given for given in attributes if given.startswith(("on", "style", "class", "id", "src"))], html
        assert not [given for given in attributes if given.startswith("href=") and not given.startswith("href=http")]


def test_words_to_be_read_aloud(watched: WatchedPage) -> None:
    text = "# Title\n\nSome *words* and [a link](http://x.example).\n\n- one\n- two & three\n\n```py\ncode()\n```\n"
    read = markdown(watched.open(), "({ plainText }, text) => plainText(text)", text)
    assert read == "Title\nSome words and a link.\none\ntwo & three"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * (3 + sqrt(16)) ^ 2", 98),
        ("-2 ** 2", -4),
        ("1,234 × 2", 2468),
        ("0.1 + 0.2", 0.3),
        ("max(1, 2, pi)", 3.14159265358979),
        ("2 ^ 3 ^ 2", 512),
        ("1 / 0", "the result is not a number"),
        ("alert(1)", "unexpected alert"),
        ("constructor", "unexpected constructor"),
        ("(1", "a ) is missing"),
        ("", "the expression ends too early"),
        ("1 2", "unexpected 2"),
    ],
)
def test_the_calculator(watched: WatchedPage, expression: str, value: float | str) -> None:
    found = watched.open().evaluate(
        """async (expression) => {
          const { calculate } = await import("/page/views/chat/calculator.js");
          try { return calculate(expression); } catch (error) { return error.message; }
        }""",
        expression,
    )
    assert found == value


def test_code_has_a_button_that_copies_it(browser: Browser, page_server: RunningServer) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    with watched_page(browser, page_server.url, permissions=permissions) as watched:
        page = watched.open()
        seed_options(watched, max_tokens=2)
        ask(page, "Hello.")
        wait_for_answer(page)
        page.evaluate(
            """async () => {
              const { current } = await import(document.querySelector("script[type=module]").src
                .replace("app/main.js", "views/chat/conversations.js"));
              const node = current.value.path().at(-1);
              node.content = "Do this:\\n\\n1. First:\\n   ```sh\\n   ls\\n   ```\\n\\n```py\\nprint(1)\\n```";
              current.value.changed();
            }"""
        )
        expect(page.locator(".code-head")).to_have_count(2)
        page.get_by_role("button", name="Copy the code").last.click()
        expect(page.locator(".copy-code").last).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == "print(1)"
        watched.check_accessible()


@pytest.fixture(scope="module")
def thinker(thinker_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A model whose template opens its reasoning; it never ends it."""
    files = tmp_path_factory.mktemp("thinker") / "files"
    config = ServerConfig(models=(ModelSpec.of(str(thinker_folder)),), files_dir=files, offline=True)
    with running_server(config, {"kv_bytes": 16 << 20}) as running:
        yield running


def test_reasoning_is_folded(browser: Browser, thinker: RunningServer) -> None:
    with watched_page(browser, thinker.url) as watched:
        page = watched.open()
        seed_options(watched, max_tokens=24, ignore_eos=True)
        ask(page, "hello")
        wait_for_answer(page)
        reasoning = page.locator(".reasoning")
        expect(reasoning.locator("summary")).to_contain_text("Thought for")
        expect(reasoning.locator(".reasoning-text")).to_be_hidden()
        reasoning.locator("summary").click()
        expect(reasoning.locator(".reasoning-text")).to_be_visible()
        assert reasoning.locator(".reasoning-text").inner_text().strip()


@pytest.fixture(scope="module")
def caller(model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    model_path(TOOL_MODEL)
    files = tmp_path_factory.mktemp("caller") / "files"
    config = ServerConfig(models=(ModelSpec.of(TOOL_MODEL),), files_dir=files, offline=True)
    with running_server(config, {"kv_bytes": 256 << 20}) as running:
        yield running


def test_a_tool_is_called_in_the_page_and_shown(browser: Browser, caller: RunningServer) -> None:
    with watched_page(browser, caller.url) as watched:
        page = watched.open()
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Calculator").check()
        seed_options(watched, temperature=0, max_tokens=120)
        ask(page, "What is 1234 * 5678? Use the tool calculate.")
        call = page.locator(".tool-call").first
        expect(call.locator("summary")).to_contain_text("calculate")
        expect(call.locator("summary")).to_contain_text("called")
        call.locator("summary").click()
        expect(call).to_contain_text("7006652")
        wait_for_answer(page)
        watched.check_accessible()


def test_an_answer_is_read_aloud(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, temperature=0, max_tokens=24)
    ask(page, "Say a sentence about the sea.")
    wait_for_answer(page)
    page.evaluate(
        """async () => {
          const { spoken } = await import(document.querySelector("script[type=module]").src
            .replace("app/main.js", "views/chat/speech.js"));
          window.loudest = 0;
          const samples = new Float32Array(2048);
          setInterval(() => {
            spoken.value?.player.analyser.getFloatTimeDomainData(samples);
            window.loudest = Math.max(window.loudest, ...samples);
          }, 50);
        }"""
    )
    page.get_by_role("button", name="Read aloud").click()
    watched.wait_until("window.loudest > 0.02")
    page.get_by_role("button", name="Stop reading aloud").click()
    expect(page.get_by_role("button", name="Read aloud")).to_be_visible()


def test_nothing_is_read_after_an_answer_was_stopped_before_its_first_word(watched: WatchedPage) -> None:
    page = watched.open()
    seed_options(watched, **ENDLESS)
    ask(page, "Tell me a story.")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".figures")).to_contain_text("stopped by you")
    expect(page.get_by_role("button", name="Answer again")).to_be_visible()
