"""`PageFiles`: the page's files in memory, compressed, with their content types and hashes.

Addresses of files have the hash of all files in them (`/page/HASH/app/main.js`), so that browsers keep a file for ever
and never mix two versions.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).with_name("static")
INDEX = "index.html"
MAIN = "app/main.js"
#: Where the addresses of styles and modules are written into the page.
MARK = "<!-- files -->"
CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
COMPRESSED = frozenset(CONTENT_TYPES) - {".png"}
#: Static imports; those of views are dynamic, and loaded when a view is opened.
IMPORT = re.compile(r"""^(?:import|export)\b[^;"']*["'](\.[^"']+)["']""", re.MULTILINE)
#: An order of styles, so that those of views come last.
STYLE_FOLDERS = ("vendor", "style", "views")


@dataclass(frozen=True)
class PageFile:
    """`compressed` is the content by gzip, or None if that is no smaller."""

    content: bytes
    content_type: str
    etag: str
    compressed: bytes | None

    @property
    def num_sent_bytes(self) -> int:
        return len(self.content if self.compressed is None else self.compressed)


class PageFiles:
    """All files under a folder, by their path in it; `index` is the page itself."""

    def __init__(self, folder: Path = STATIC) -> None:
        names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        contents = {name: names[name].read_bytes() for name in sorted(names)}
        index = contents.pop(INDEX).decode()
        digest = hashlib.sha256(b"".join(name.encode() + b"\0" + data for name, data in contents.items()))
        self.version = digest.hexdigest()[:16]
        self.files = {name: _page_file(name, data) for name, data in contents.items()}
        self.index = _page_file(INDEX, index.replace(MARK, "\n".join(self._links(contents))).encode())

    def _links(self, contents: dict[str, bytes]) -> list[str]:
        """Tags for every style, the first module, and all that it imports, so that they are loaded at once."""
        styles = sorted((name for name in contents if name.endswith(".css")), key=_style_order)
        tags = [f'<link rel="stylesheet" href="{self._address(name)}">' for name in styles]
        tags += [f'<link rel="modulepreload" href="{self._address(name)}">' for name in imported(MAIN, contents)]
        return [*tags, f'<script type="module" src="{self._address(MAIN)}"></script>']

    def _address(self, name: str) -> str:
        """Relative, so that the page also works below a path of a proxy."""
        return html.escape(f"page/{self.version}/{name}")


def imported(module: str, contents: dict[str, bytes]) -> list[str]:
    """The modules that one imports, with those that they import."""
    found: dict[str, None] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        for path in IMPORT.findall(contents[name].decode()):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            if target != module and target not in found:
                found[target] = None
                waiting.append(target)
    return list(found)


def _style_order(name: str) -> tuple[int, str]:
    return STYLE_FOLDERS.index(name.partition("/")[0]), name


def _page_file(name: str, content: bytes) -> PageFile:
    suffix = Path(name).suffix
    compressed = gzip.compress(content, 9, mtime=0) if suffix in COMPRESSED else None
    if compressed is not None and len(compressed) >= len(content):
        compressed = None
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return PageFile(content, CONTENT_TYPES[suffix], etag, compressed)
