"""Modules of the web page that need a browser and no page: Markdown, the calculator, and sound of another rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from support.browser.watched_page import watched_page
from support.server.http_server import RunningServer

pytestmark = pytest.mark.browser

#: Each with something that would be parsed wrongly if a part were final too early.
TEXTS = (
    "1. **Use:**\n   ```\n   code\n   ```\n2. two\n\n3. three\n\nafter\n",
    "# Head\n\ntext\nSetext\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend",
    "- one\n\n  more of one\n- [x] two\n\n> quote\n> more\n\n***\n",
    "```py\nprint(1 < 2)\n\n# not a heading\n```\nend *it* `c` **b",
    "a <b>bold</b> word, a<br>break, CRLF\r\nand\r\n\r\nnext",
    "so\n$$\na = b\n$$\nand \\(c\\), $d$\n\n\\[\ne\n\\]\n\n- $f$ costs $5\n",
)
HOSTILE = (
    "$<img src=x onerror=alert(1)>$",
    '$$x" onclick="alert(1)$$',
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![pixel](http://elsewhere.example/pixel.png)",
    '<a href="data:text/html,hello" style="position:fixed" class="dialog" id="app">x</a>',
    "<svg onload=alert(1)><style>*{display:none}</style>",
)
#: Texts with the formulas in them.
FORMULAS: dict[str, list[str]] = {
    "$E = mc^2$ and \\(a_1*b_2*c\\)": ["E = mc^2", "a_1*b_2*c"],
    "$$\nx\n$$ then\n\\[ y^{\\$} \\]": ["x", "y^{\\$}"],
    "the $n$th, $2x + 3$ of $5$": ["n", "2x + 3", "5"],
    "$5 and $6, $5-$6, US$5 or A$6$, $5, or 6$ each, $10 million and 5$ more": [],
    "\\$5$, `$x$`, $HOME/$PATH, $ x $, $$ $$, \\(\\)": [],
    "```\n$$x$$\n```\n\n$$a\n\nb$$": [],
}
CALCULATIONS = {
    "2 * (3 + sqrt(16)) ^ 2": 98,
    "-2 ** 2": -4,
    "1,234 × 2": 2468,
    "0.1 + 0.2": 0.3,
    "max(1, 2, pi)": 3.14159265358979,
    "2 ^ 3 ^ 2": 512,
    "1 / 0": "the result is not a number",
    "alert(1)": "unexpected alert",
    "constructor": "unexpected constructor",
    "(1": "a ) is missing",
    "": "the expression ends too early",
    "1 2": "unexpected 2",
}


@pytest.fixture
def page(profile: BrowserContext, server: RunningServer) -> Iterator[Page]:
    """A document of the server in which nothing runs yet."""
    with watched_page(profile, server.url) as watched:
        watched.expect_fault("favicon")
        watched.page.goto(server.url + "/page/lib/format.js")
        yield watched.page


def markdown(page: Page, script: str, argument: Any) -> Any:
    """Return what a function gets from `lib/markdown.js` and an argument."""
    return page.evaluate(
        f"""async (argument) => ({script})(await import("/page/lib/markdown.js"), argument)""",
        argument,
    )


def test_markdown_that_grows_by_characters_is_that_of_the_whole(page: Page) -> None:
    for text in TEXTS:
        whole, grown, num_kept = markdown(
            page,
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
        assert grown == whole and num_kept > 0, text


def test_markdown_cannot_run_or_load_anything(page: Page) -> None:
    for text in HOSTILE:
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
            assert name in ("p", "a", "b", "span"), html
            assert not [given for given in attributes if given.startswith(("on", "style", "class", "id", "src"))], html
            assert not [
                given for given in attributes if given.startswith("href=") and not given.startswith("href=http")
            ], html


def test_formulas_are_found_and_prices_are_not(page: Page) -> None:
    for text, wanted in FORMULAS.items():
        found = markdown(
            page,
            """async ({ GrowingMarkdown }, text) => {
              const { formulaOf } = await import("/page/lib/math_syntax.js");
              const html = new GrowingMarkdown().update(text).map((block) => block.html).join("");
              const places = new DOMParser().parseFromString(html, "text/html").querySelectorAll("[data-math]");
              return [...places].map((place) => formulaOf(place.textContent).trim());
            }""",
            text,
        )
        assert found == wanted, text


def test_code_is_open_until_its_fence_ends(page: Page) -> None:
    texts = [
        "```py\na",
        "```py\na\n",
        "```py\na\n``",
        "```py\na\n```",
        "````\n```\n",
        "    indented",
        "- x\n  ```\n  a\n  ```\n",
    ]
    opens = markdown(
        page,
        """({ GrowingMarkdown }, texts) =>
          texts.map((text) => new GrowingMarkdown().update(text).some(({ html }) => html.includes("data-open")))""",
        texts,
    )
    assert opens == [True, True, True, False, True, False, False]


def test_a_file_is_a_fenced_block_of_the_prompt(page: Page) -> None:
    files = [{"name": "notes.md", "text": "a\n```\nb\n```\n"}, {"name": 'x" onload=.<i>', "text": "c"}]
    told = page.evaluate(
        """async (files) => {
          const { promptOf } = await import("/page/views/chat/prompt.js");
          return [promptOf({ content: "What is this?", files }), promptOf({ content: "Only words" })];
        }""",
        files,
    )
    assert told == [
        'File `notes.md`:\n````md\na\n```\nb\n```\n````\n\nFile `x" onload=.<i>`:\n```\nc\n```\n\nWhat is this?',
        "Only words",
    ]


def test_two_versions_of_a_chat_are_merged_in_either_order(page: Page) -> None:
    """Two tabs ask below the same message; one renames the chat, the other one changes its options."""
    titles, options, children, contents, chosen = page.evaluate(
        """async () => {
          const { mergeInto } = await import("/page/views/chat/merge.js");
          const node = (id, parent, createdAt, more) =>
            [id, { id, parent, createdAt, role: "user", content: "", ...more }];
          const record = (nodes, children, more) =>
            ({ title: "first", updatedAt: 1, options: {}, nodes: Object.fromEntries(nodes), children, ...more });
          const half = () => node("a", "q", 2, { content: "Hel" });
          const whole = () => node("a", "q", 2, { content: "Hello", finish: "stop" });
          const below = (id) => ({ "": ["q"], q: ["a"], a: [id], [id]: [] });
          const here = () => record([node("q", "", 1), whole(), node("b", "a", 4)], below("b"),
            { title: "second", titledAt: 5, chosen: { a: "b" } });
          const there = () => record([node("q", "", 1), half(), node("d", "a", 3)], below("d"),
            { options: { seed: 1 }, optionsAt: 6, chosen: { a: "d" } });
          const [one, other] = [here(), there()];
          const changes = [mergeInto(one, there()), mergeInto(other, here()), mergeInto(one, there())];
          if (`${changes}` !== "true,true,false") throw new Error(`${changes}`);
          const own = there();
          mergeInto(own, here(), (node) => node.id === "a"); // this tab is still generating the answer
          return [[one.title, other.title], [one.options, other.options], [one.children.a, other.children.a],
            [one.nodes.a.content, other.nodes.a.content, own.nodes.a.content], [one.chosen.a, other.chosen.a]];
        }"""
    )
    assert titles == ["second", "second"] and options == [{"seed": 1}] * 2 and children == [["d", "b"]] * 2
    assert contents == ["Hello", "Hello", "Hel"] and chosen == ["b", "d"]


def test_words_of_lists(page: Page) -> None:
    told = page.evaluate(
        """async (lists) => {
          const { listed } = await import("/page/lib/format.js");
          return lists.map((words) => listed(words));
        }""",
        [[], ["a"], ["a", "b"], ["a", "b", "c"]],
    )
    assert told == ["", "a", "a and b", "a, b and c"]


def test_words_to_be_read_aloud_and_calculations(page: Page) -> None:
    text = "# Title\n\nSome *words* and [a link](http://x.example).\n\n- one\n- two & three\n\n```py\ncode()\n```\n"
    read = markdown(page, "({ plainText }, text) => plainText(text)", text)
    assert read == "Title\nSome words and a link.\none\ntwo & three"
    found = page.evaluate(
        """async (expressions) => {
          const { calculate } = await import("/page/views/chat/calculator.js");
          return expressions.map((expression) => {
            try { return calculate(expression); } catch (error) { return error.message; }
          });
        }""",
        list(CALCULATIONS),
    )
    assert dict(zip(CALCULATIONS, found, strict=True)) == CALCULATIONS


def test_sound_of_another_rate_keeps_its_tones_and_loses_what_does_not_fit(page: Page) -> None:
    levels = page.evaluate(
        """async () => {
          const { Resampler } = await import("/page/lib/resampler.js");
          const level = (hertz, from) => {
            const resampler = new Resampler(from, 24000);
            const made = [];
            for (let start = 0; start < from; start += 100) {
              const tone = (_, index) => Math.sin((2 * Math.PI * hertz * (start + index)) / from);
              made.push(...resampler.push(Float32Array.from({ length: 100 }, tone)));
            }
            const middle = made.slice(2000, 20000);
            return [made.length, Math.sqrt(middle.reduce((sum, value) => sum + value * value, 0) / middle.length)];
          };
          const cases = [[1000, 48000], [1000, 44100], [9000, 48000], [15000, 48000], [1000, 16000]];
          return cases.map(([hertz, from]) => level(hertz, from));
        }"""
    )
    for (count, level), wanted in zip(levels, [0.7071, 0.7071, 0.7071, 0.0, 0.7071], strict=True):
        assert 23_000 < count <= 24_100
        assert level == pytest.approx(wanted, abs=0.005)
