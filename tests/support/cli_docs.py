"""Generate docs/cli.md from the command line's help: run `python tests/support/cli_docs.py`."""

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

The help of every command, as `antiphon COMMAND -h` prints it. This file is generated: run
`python tests/support/cli_docs.py` after a change.

Exit codes: 0 for success; 1 for a failure, with one line on standard error; 2 for wrong usage, such as a value out of
range; 130 after Ctrl-C; 141 if the reader of standard output has gone (`antiphon list | head -1`).

`antiphon --install-completion` sets up completion of commands, options and model names for the shell that runs it
(bash, zsh, fish or PowerShell); `--show-completion` prints the script instead.
"""


def help_text(*arguments: str) -> str:
    """Return the output of `antiphon ARGUMENTS --help` on a 100-column terminal."""
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
