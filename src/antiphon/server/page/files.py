"""`PageFiles`: the page's files in memory, compressed, with their content types and hashes.

Addresses of files contain the hash of all files (`/page/HASH/app/main.js`), so that browsers keep a file forever and
never mix two versions.
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
#: Mark in the page that is replaced by the addresses of styles and modules.
MARK = "<!-- files -->"
CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
COMPRESSED = frozenset(CONTENT_TYPES) - {".png", ".woff2"}
#: Static imports. Views are imported dynamically, when they are opened.
IMPORT = re.compile(r"""^(?:import|export)\b[^;"'(]*["'](\.[^"']+)["']""", re.MULTILINE)
#: Order of styles: those of views override the others.
STYLE_FOLDERS = ("vendor", "style", "views")
#: Folder of the renderer of formulas. The page loads its files, a style among them, for the first formula only.
MATH = "vendor/katex/"


@dataclass(frozen=True)
class PageFile:
    """A file to serve; `compressed` is its content by gzip, or None if compression saves nothing."""

    content: bytes
    content_type: str
    etag: str
    compressed: bytes | None

    @property
    def num_sent_bytes(self) -> int:
        return len(self.content if self.compressed is None else self.compressed)


class PageFiles:
    """All files of a folder, by path relative to it; `index` is the page itself."""

    def __init__(self, folder: Path = STATIC) -> None:
        names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        contents = {name: names[name].read_bytes() for name in sorted(names)}
        index = contents.pop(INDEX).decode()
        digest = hashlib.sha256(b"".join(name.encode() + b"\0" + data for name, data in contents.items()))
        self.version = digest.hexdigest()[:16]
        self.files = {name: _page_file(name, data) for name, data in contents.items()}
        self.index = _page_file(INDEX, index.replace(MARK, "\n".join(self._links(contents))).encode())

    def _links(self, contents: dict[str, bytes]) -> list[str]:
        """Return tags for the styles and for the main module with its imports, so that all of them load at once."""
        names = (name for name in contents if name.endswith(".css") and not name.startswith(MATH))
        styles = sorted(names, key=_style_order)
        tags = [f'<link rel="stylesheet" href="{self._address(name)}">' for name in styles]
        tags += [f'<link rel="modulepreload" href="{self._address(name)}">' for name in imported(MAIN, contents)]
        return [*tags, f'<script type="module" src="{self._address(MAIN)}"></script>']

    def _address(self, name: str) -> str:
        """Return a file's relative address, so that the page also works below a path of a proxy."""
        return html.escape(f"page/{self.version}/{name}")


def imported(module: str, contents: dict[str, bytes]) -> list[str]:
    """Return the modules that a module imports, directly and indirectly."""
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
