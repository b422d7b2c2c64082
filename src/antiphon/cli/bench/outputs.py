"""The files that benchmarks write: figures as JSON, and a report as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.terminal.files import check_writable
from antiphon.errors import InvalidRequestError

Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Also write the results as JSON.", show_default=False),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a report with plots as one HTML page.", show_default=False),
]


def check_outputs(output: Path | None, html: Path | None, inputs: Sequence[Path] = ()) -> None:
    """Before the work: reject files that cannot be written, or of which one would overwrite another."""
    if html is not None and html.resolve() in {path.resolve() for path in (output, *inputs) if path is not None}:
        raise InvalidRequestError(f"--html would overwrite {html}; give the report a file of its own")
    for path in (output, html):
        if path is not None:
            check_writable(path)
