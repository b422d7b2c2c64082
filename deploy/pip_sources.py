"""Print pip's configured sources of packages as arguments for uv, which does not read pip's configuration.

The Makefile installs packages with uv, several times as fast as pip. If a machine's pip is configured for a mirror, a
folder of wheels or another index, uv must look there too. Needs the standard library and pip.

pip takes the most specific wheel of a version from all indexes, uv the wheel of the first index with the version. So
the default index comes first: an extra index may hold only the pure wheel, without the native library.

    uv pip install $(python deploy/pip_sources.py) PACKAGE
"""

from __future__ import annotations

import ast
import shlex
import subprocess
import sys

from pip._internal.models.index import PyPI

#: Options of uv by pip's setting of a source; a setting with several values becomes several options.
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
#: Sections of pip's configuration, by increasing precedence.
SECTIONS = ("global", "install", ":env:")


def settings(listing: str) -> dict[str, list[str]]:
    """Return the values per setting from the output of `pip config list`."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in SECTIONS and name in (*OPTIONS, "no-index"):
            found[section, name] = str(ast.literal_eval(value)).split()
    return {name: values for section in SECTIONS for (other, name), values in found.items() if other == section}


def arguments(found: dict[str, list[str]]) -> list[str]:
    """Return uv's arguments; like pip, uv then takes the best version of all indexes."""
    out = ["--index-strategy", "unsafe-best-match"]
    if found.get("no-index", ["0"])[0].lower() in ("1", "true", "yes", "on"):
        out.append("--no-index")
    elif "extra-index-url" in found:
        out += ["--index", found.get("index-url", [PyPI.simple_url])[0]]
    for name, option in OPTIONS.items():
        out += [word for value in found.get(name, []) for word in (option, value)]
    return out


def main() -> None:
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    print(shlex.join(arguments(settings(listing))))


if __name__ == "__main__":
    main()
