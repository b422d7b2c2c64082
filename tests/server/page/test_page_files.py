"""The page's files as the server sends them: policy, caching, compression, and no key; and what they are made of."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from antiphon.server.page.files import MATH, STATIC, PageFiles, imported
from antiphon.server.page.route import accepts_gzip
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.server.http_server import RunningServer
from support.server.pool import ServerPool

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "deploy" / "page_vendor.json"
VENDOR = STATIC / "vendor"
#: Maximum bytes, compressed, of what a browser fetches when it opens the page, and of all files but those for formulas.
MAX_FIRST_BYTES = 250_000
MAX_PAGE_BYTES = 400_000
#: Written out, so that a change of the policy is seen here.
POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HTML = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def keyed(servers: ServerPool, chat_folder: Path, stored_files: Path) -> Iterator[RunningServer]:
    config = ServerConfig(
        models=(ModelSpec.of(str(chat_folder)),),
        keys=KeyRing(["a-key-of-the-api"]),
        files_dir=stored_files / "keyed",
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


def addresses(page: str) -> list[str]:
    return re.findall(r'(?:href|src)="([^"]+)"', page)


def test_the_page_and_its_files_need_no_key_and_have_the_policy(keyed: RunningServer) -> None:
    page = httpx.get(keyed.url + "/", headers=HTML)
    assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    linked = addresses(page.text)
    assert len(linked) > 20 and not any(address.startswith(("/", "http")) for address in linked)
    for answer in (page, *(httpx.get(f"{keyed.url}/{address}") for address in linked)):
        assert answer.status_code == 200, answer.url
        headers = answer.headers
        assert headers["content-security-policy"] == POLICY
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert headers["permissions-policy"].startswith("microphone=(self)")
    assert httpx.get(keyed.url + "/v1/models").status_code == 401


def test_programs_get_a_line_at_the_root(keyed: RunningServer) -> None:
    for headers in ({}, {"accept": "application/json"}):
        answer = httpx.get(keyed.url + "/", headers=headers)
        assert (answer.status_code, answer.text) == (200, "Antiphon is running") and "accept" in answer.headers["vary"]


def test_nothing_inline_and_nothing_from_elsewhere(keyed: RunningServer) -> None:
    page = httpx.get(keyed.url + "/", headers=HTML).text
    assert not re.search(r"https?:|<style|style=|\bon\w+=|javascript:", page)
    assert all(script.endswith("></script>") for script in re.findall(r"<script.*?</script>", page, re.DOTALL))
    own = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css") and VENDOR not in path.parents]
    for path in own:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?://|@import|\beval\(|new Function", text.replace("https?:", "")), path


def test_caching_by_version_and_by_hash(keyed: RunningServer) -> None:
    version = PageFiles().version
    named = httpx.get(f"{keyed.url}/page/{version}/app/main.js")
    assert named.headers["cache-control"] == "public, max-age=31536000, immutable"
    for path in ("/page/app/main.js", "/page/0123456789abcdef/app/main.js", "/"):
        answer = httpx.get(keyed.url + path, headers=HTML)
        assert answer.headers["cache-control"] == "no-cache"
        again = httpx.get(keyed.url + path, headers={**HTML, "if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"") and again.headers["etag"] == answer.headers["etag"]
        other = httpx.get(keyed.url + path, headers={**HTML, "if-none-match": '"another"'})
        assert other.status_code == 200


def test_compression_is_negotiated(keyed: RunningServer) -> None:
    url = f"{keyed.url}/page/app/shell.js"
    plain = httpx.get(url, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with httpx.stream("GET", url, headers={"accept-encoding": "br, gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip" and "accept-encoding" in answer.headers["vary"]
    assert gzip.decompress(raw) == plain.content and len(raw) < len(plain.content)
    icon = httpx.get(f"{keyed.url}/page/icons/icon-192.png", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in icon.headers and icon.content.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("br", False),
        ("", False),
    ],
)
def test_accept_encoding(given: str, accepted: bool) -> None:
    assert accepts_gzip(given) == accepted


def test_there_is_nothing_beside_the_pages_files(keyed: RunningServer) -> None:
    for path in (
        "none.js",
        "app/..%2f..%2ffiles.py",
        "%2e%2e%2froute.py",
        "index.html",
        "",
        "app",
        "0123456789abcdef/",
    ):
        answer = httpx.get(f"{keyed.url}/page/{path}")
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_found", path
    assert httpx.post(f"{keyed.url}/page/app/main.js").status_code == 405


def test_the_status_needs_no_key_and_is_never_an_error(keyed: RunningServer) -> None:
    told = httpx.get(keyed.url + "/page/status")
    assert told.status_code == 200
    assert set(told.json()) == {"status", "cause", "version", "page", "limits"} and told.json()["status"] == "ready"
    assert told.json()["limits"] == {"json": 8 << 20, "recording": 512 << 20}
    keyed.serving.is_draining = True
    try:
        told = httpx.get(keyed.url + "/page/status")
        assert (told.status_code, told.json()["status"]) == (200, "draining")
    finally:
        keyed.serving.is_draining = False


def test_the_manifest_leads_to_its_icons_and_the_page(keyed: RunningServer) -> None:
    url = httpx.URL(keyed.url + "/page/app.webmanifest")
    answer = httpx.get(url)
    assert answer.headers["content-type"] == "application/manifest+json"
    told = answer.json()
    assert told["display"] == "standalone" and str(url.join(told["start_url"])) == keyed.url + "/"
    sizes = {icon["sizes"] for icon in told["icons"]}
    assert {"192x192", "512x512"} <= sizes  # what browsers ask for before they install a page
    for icon in told["icons"]:
        found = httpx.get(url.join(icon["src"]))
        assert found.headers["content-type"] == icon["type"]


def test_the_page_is_small() -> None:
    """A browser test measures the first load too, in bytes that were sent."""
    files = PageFiles()
    sizes = {name: file.num_sent_bytes for name, file in files.files.items()}
    contents = {name: file.content for name, file in files.files.items()}
    linked = {
        address.split("/", 2)[2] for address in addresses(files.index.content.decode()) if files.version in address
    }
    chat = "views/chat/index.js"
    first = linked | {chat, *imported(chat, contents)}
    assert sum(sizes[name] for name in first) + files.index.num_sent_bytes <= MAX_FIRST_BYTES
    assert not [name for name in first if name.startswith(("vendor/katex/", "vendor/highlight/"))]
    rest = {name: size for name, size in sizes.items() if not name.startswith(MATH)}
    assert sum(rest.values()) <= MAX_PAGE_BYTES, sorted(rest.items(), key=lambda item: -item[1])[:10]


def test_every_import_leads_to_a_file() -> None:
    contents = {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in STATIC.rglob("*.js")}
    for name in contents:
        assert set(imported(name, contents)) <= set(contents), name
    text = contents["app/views.js"].decode()
    views = re.findall(r'^  \{.*import\("\.\./([^"]+)"\)', text, re.MULTILINE)
    assert "views/chat/index.js" in views and set(views) <= set(contents)


def test_libraries_are_those_of_the_lock_file() -> None:
    lock = json.loads(LOCK.read_text(encoding="utf-8"))
    recorded = {name: entry["sha256"] for package in lock.values() for name, entry in package["files"].items()}
    found = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file()
    }
    assert found == recorded
    for package in lock.values():
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"]) and package["integrity"].startswith("sha512-")
        assert package["licence"] and any(name.startswith("licences/") for name in package["files"])
        assert all(entry["from"] for entry in package["files"].values())


def test_libraries_are_minified() -> None:
    for path in (*VENDOR.rglob("*.js"), *VENDOR.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        share = sum(letter.isspace() for letter in text) / len(text)
        assert share < 0.09, f"{100 * share:.0f}% of {path.name} is white space"


def test_formulas_use_fonts_that_are_there() -> None:
    named = set(re.findall(r"url\(([^)]+)\)", (VENDOR / "katex" / "katex.css").read_text(encoding="utf-8")))
    there = {f"fonts/{path.name}" for path in (VENDOR / "katex" / "fonts").iterdir()}
    assert named == there and all(name.endswith(".woff2") for name in named)


def test_the_library_of_plots_can_be_inlined() -> None:
    """uPlot must be one script without imports and exports, which a file can hold inside of `<script>`."""
    text = (VENDOR / "uplot.js").read_text(encoding="utf-8")
    assert text.endswith("globalThis.uPlot = uPlot;\n")
    assert "</script" not in text and not re.search(r"^(?:import|export)\b", text, re.MULTILINE)
