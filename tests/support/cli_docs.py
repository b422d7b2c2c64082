"""docs/cli.md from the command line's own help: `python tests/support/cli_docs.py` rewrites it."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from unittest.mock import patch

import typer

from antiphon.cli.app import app

PATH = Path(__file__).parents[2] / "docs" / "cli.md"
BEGINNING = """\
# The command line

`antiphon --help` and the help of every command, as the program prints them. This file is generated: run
`python tests/support/cli_docs.py` after a change.

Every command ends with exit code 0 when it did its work, 1 with one line on standard error when something is wrong
that you can mend, 2 when it was called wrongly, and 130 when Ctrl-C ended it.
"""


def help_text(*arguments: str) -> str:
    """What `antiphon ARGUMENTS --help` prints on a terminal of at least 80 columns."""
    output = io.StringIO()
    with patch.dict(os.environ, {"COLUMNS": "100"}), contextlib.redirect_stdout(output):
        app([*arguments, "--help"], prog_name="antiphon", standalone_mode=False)
    return output.getvalue().strip()


def cli_docs() -> str:
    sections = [BEGINNING, f"```text\n{help_text()}\n```\n"]
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for names in [[name], *([name, inner] for inner in getattr(command, "commands", ()))]:
            sections.append(f"## antiphon {' '.join(names)}\n\n```text\n{help_text(*names)}\n```\n")
    sections.append(f"<!-- typer {typer.__version__} -->\n")
    return "\n".join(sections)


if __name__ == "__main__":
    PATH.write_text(cli_docs(), encoding="utf-8")
