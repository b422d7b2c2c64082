"""Files with one input per line, for `antiphon batch` and `antiphon embed`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.terminal.files import read_stdin, read_text
from antiphon.errors import InvalidRequestError

INPUT_HELP = "File with one input per line: text, or a JSON string. '-' is standard input."
InputFile = Annotated[Path, typer.Argument(metavar="FILE", help=INPUT_HELP)]


def read_inputs(file: Path) -> list[str]:
    """Return the file's non-empty lines; a line that is a JSON string is decoded."""
    texts = []
    for number, line in enumerate((read_stdin() if str(file) == "-" else read_text(file)).splitlines(), start=1):
        if not line.strip():
            continue
        if line.startswith('"'):
            try:
                line = json.loads(line)
            except ValueError as error:
                raise InvalidRequestError(f"{file}, line {number} is not a JSON string: {error}") from error
        texts.append(line)
    if not texts:
        raise InvalidRequestError(f"{file} has no lines to process")
    return texts
