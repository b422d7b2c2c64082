"""Destinations of transcripts: standard output, or a folder with a file per recording."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from antiphon.cli.terminal.files import replace_text
from antiphon.counted import counted
from antiphon.errors import InvalidRequestError

SUFFIXES = {"text": "txt", "verbose_json": "json"}


def file_names(recordings: Sequence[str], suffix: str) -> list[str]:
    """Return a unique file name per recording's transcript: the recording's stem, numbered from 2 if repeated.

    The names depend on the command line alone, so that the same command writes the same files again. They differ in
    more than case, since some file systems ignore it.
    """
    stems = ["stdin" if name == "-" else Path(name).stem for name in recordings]
    taken = {stem.casefold() for stem in stems}
    seen: set[str] = set()
    names = []
    for stem in stems:
        chosen, number = stem, 2
        if stem.casefold() in seen:
            while (chosen := f"{stem}-{number}").casefold() in taken:
                number += 1
            taken.add(chosen.casefold())
        seen.add(stem.casefold())
        names.append(f"{chosen}.{suffix}")
    return names


def report_failures(failures: int, count: int) -> NoReturn:
    """Exit with status 1, after a line with the number of failed recordings if there were several."""
    if count > 1:
        print(f"antiphon: {failures} of {counted(count, 'recording')} failed", file=sys.stderr)
    raise typer.Exit(1)


class TranscriptOutput:
    """Writer of the recordings' transcripts, by their index on the command line."""

    def __init__(self, recordings: Sequence[str], format_: str, folder: Path | None) -> None:
        """Create the folder, so that a folder that cannot be used is an error before any work."""
        self._recordings = list(recordings)
        self._paths: list[Path] | None = None
        self._printed: int | None = None  # index of the recording whose transcript was printed last
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidRequestError(f"cannot create the folder {folder}: {error.strerror or error}") from error
            if not os.access(folder, os.W_OK):
                raise InvalidRequestError(f"cannot write into the folder {folder}: permission denied")
            self._paths = [folder / name for name in file_names(recordings, SUFFIXES.get(format_, format_))]

    def write(self, index: int, text: str) -> Path | None:
        """Write or print a transcript; return its file, or None for standard output.

        A file from an earlier run is replaced, a file from this run never.
        """
        if self._paths is not None:
            path = self._paths[index]
            if path.exists():
                print(f"antiphon: replacing {path}, which an earlier run wrote", file=sys.stderr)
            replace_text(path, text)
            return path
        self.print_part(index, text)
        return None

    @property
    def is_printed(self) -> bool:
        """Whether transcripts go to standard output, which accepts them in parts."""
        return self._paths is None

    def print_part(self, index: int, text: str) -> None:
        """Print more of a transcript, after those of the recordings before it."""
        if len(self._recordings) > 1 and index != self._printed:
            print(f"==> {self._recordings[index]} <==")
        self._printed = index
        print(text, end="", flush=True)
