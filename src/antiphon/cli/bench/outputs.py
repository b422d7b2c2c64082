"""Result files of benchmarks: figures as JSON, and a report as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.terminal.files import check_writable, write_json, write_text
from antiphon.errors import InvalidRequestError

Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a report with plots as one HTML page.")]


class ResultFiles(OptionGroup):
    """Options for a benchmark's result files."""

    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results as JSON.")] = None
    html: Html = None

    def check(self, inputs: Sequence[Path] = ()) -> None:
        """Raise unless the files can be written without overwriting each other or an input."""
        output, html = self.output, self.html
        if html is not None and html.resolve() in {path.resolve() for path in (output, *inputs) if path is not None}:
            raise InvalidRequestError(f"--html would overwrite {html}; give the report a file of its own")
        for path in (output, html):
            if path is not None:
                check_writable(path)

    def write(self, result: Any, page: Callable[[Any], str]) -> None:
        """Write the requested files; `page` renders the report."""
        if self.output is not None:
            write_json(self.output, result)
        if self.html is not None:
            write_text(self.html, page(result))
