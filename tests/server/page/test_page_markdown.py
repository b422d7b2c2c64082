"""Answers on the web page as they are drawn: coloured code, formulas, aligned tables; and nothing of them runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, expect

from support.browser.chat_view import show_answer
from support.browser.watched_page import PHONE, WatchedPage, watched_page
from support.server.http_server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.long("a browser opens the page")]

#: Maximum bytes, compressed, that a browser fetches when it opens the page.
MAX_FIRST_BYTES = 400_000
SENT = """performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .filter((entry) => !entry.name.includes("/page/status")).map((entry) => [entry.name, entry.encodedBodySize])"""
FORMULAS = """A formula $E = mc^2$ and its square root:

$$\\sqrt{\\boxed{E}} = \\pmb{c} \\cdot \\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}$$

Mistakes: $\\frac{$, $\\href{javascript:alert(1)}{x}$, $\\includegraphics{http://x.example/p.png}$,
$\\htmlStyle{color: red}{x}$, $\\def\\a{\\a\\a}\\a$ and a price of $5 and $6.

$$<img src=x onerror=window.hasRun=true>$$
"""
CODE = """```python
def square(number: int) -> int:
    return number ** 2  # a <b>comment</b>
```

```html
<img src="x" onerror="window.hasRun = true"><script>window.hasRun = true</script>
```

```"><img/src=x/onerror=window.hasRun=true>
x
```

```nonsense
plain <i>words</i>
```
"""
TABLE = "| left | centre | right |\n|:---|:---:|---:|\n| a | b | c |\n"


@pytest.fixture
def watched(profile: BrowserContext, server: RunningServer) -> Iterator[WatchedPage]:
    with watched_page(profile, server.url) as page:
        yield page


def test_the_first_load_is_small_and_formulas_are_drawn_by_what_is_loaded_for_them(watched: WatchedPage) -> None:
    page = watched.open()
    show_answer(page, "Only `words`, and a price of $5 and $6.")
    expect(page.locator(".markdown")).to_contain_text("$5 and $6")
    sent = dict(page.evaluate(SENT))
    assert 50_000 < sum(sent.values()) <= MAX_FIRST_BYTES
    assert not [name for name in sent if "katex" in name or "highlight/" in name]

    page.get_by_role("link", name="New chat").first.click()
    show_answer(page, FORMULAS)
    drawn = page.locator(".markdown .katex")
    expect(drawn).to_have_count(3)
    assert [name for name in dict(page.evaluate(SENT)) if name.endswith(("katex.js", "katex.css"))]
    expect(page.locator(".markdown math")).to_have_count(3)  # for screen readers
    for source in ("\\frac{$", "\\href{javascript:alert(1)}", "\\includegraphics", "\\htmlStyle", "\\def\\a"):
        expect(page.locator(".markdown")).to_contain_text(source)
    assert page.locator(".markdown a, .markdown img").count() == 0
    wide = page.locator(".markdown [data-math='display'] .katex-html").first.bounding_box()
    assert wide is not None and wide["height"] > 30  # two rows of a matrix, by the styles and fonts
    assert page.evaluate("document.fonts.check('16px KaTeX_Main')")
    assert page.evaluate("window.hasRun") is None
    watched.check_accessible()


def test_code_is_coloured_and_does_not_run(watched: WatchedPage) -> None:
    page = watched.open()
    show_answer(page, CODE)
    blocks = page.locator(".markdown pre")
    expect(blocks.nth(0).locator(".hljs-keyword").first).to_have_text("def")
    expect(blocks.nth(0).locator(".hljs-comment")).to_have_text("# a <b>comment</b>")
    expect(blocks.nth(1).locator(".hljs-name").first).to_have_text("img")
    expect(blocks.nth(1).locator(".hljs-keyword, .hljs-variable, .hljs-literal").first).to_be_visible()  # the script's
    expect(blocks.nth(2)).to_have_text("x")
    expect(blocks.nth(3)).to_have_text("plain <i>words</i>")
    assert blocks.nth(2).locator("span").count() == blocks.nth(3).locator("span").count() == 0
    assert page.evaluate("window.hasRun") is None
    sizes = page.evaluate(
        """() => [".markdown pre code", ".bubble"]
          .map((name) => getComputedStyle(document.querySelector(name)).fontSize)"""
    )
    assert sizes[0] == sizes[1]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        watched.check_accessible()


def test_growing_code_is_coloured_once_it_is_complete(watched: WatchedPage) -> None:
    page = watched.open()
    told = page.evaluate(
        """async () => {
          const base = document.querySelector("script[type=module]").src;
          const load = (name) => import(base.replace("app/main.js", name));
          const [{ Markdown }, { html, render }, { loadGrammar }] =
            await Promise.all(["components/markdown.js", "lib/ui.js", "lib/highlight.js"].map(load));
          await loadGrammar("python");
          const place = document.createElement("div");
          const numSpans = (text, isGrowing) => {
            render(html`<${Markdown} text=${text} isGrowing=${isGrowing} />`, place);
            return place.querySelectorAll("pre span").length;
          };
          const code = "```py\\nimport re\\n";
          const told = [numSpans(code, true), numSpans(code + "```", true), numSpans(code + "```\\n\\nand", true)];
          const kept = place.querySelector("pre span");
          numSpans(code + "```\\n\\nand so on", true);
          told.push(kept === place.querySelector("pre span")); // a block that is final is not drawn again
          return [...told, numSpans(code, false)];
        }"""
    )
    assert told == [0, 1, 1, True, 1]


def test_columns_of_a_table_are_aligned(watched: WatchedPage) -> None:
    page = watched.open()
    show_answer(page, TABLE)
    for cells in ("th", "td"):
        found = page.eval_on_selector_all(
            f".markdown {cells}", "(cells) => cells.map((cell) => getComputedStyle(cell).textAlign)"
        )
        assert found == ["left", "center", "right"]
    page.set_viewport_size(PHONE)
    watched.check_accessible()
