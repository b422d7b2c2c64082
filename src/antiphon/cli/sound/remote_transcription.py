"""`antiphon transcribe` with a running server: recordings are uploaded, several at once, and stream their text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue

import typer

from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import Client
from antiphon.cli.remote.given import Given
from antiphon.cli.sound.streamed_transcript import TranscriptRequest
from antiphon.cli.sound.transcript_output import TranscriptOutput, report_failures
from antiphon.errors import AntiphonError

OPTIONS = (
    "files", "model", "language", "translate", "prompt", "format_", "words", "beams", "sequential", "output",
)  # fmt: skip
UPLOADS_AT_ONCE = 8


@dataclass
class _Upload:
    """Recording transcribed in a thread. `parts` receives the parts of its transcript, then None."""

    name: str
    parts: SimpleQueue[str | None] = field(default_factory=SimpleQueue)
    ended: Future[float] | None = None

    def run(self, transcribe: Callable[[str, Callable[[str], None]], float]) -> float:
        try:
            return transcribe(self.name, self.parts.put)
        finally:
            self.parts.put(None)


def transcribe_remotely(
    context: typer.Context, server: ServerAddress, names: list[str], destination: TranscriptOutput
) -> None:
    """Write the transcripts in the order of the names, each as its parts arrive, for `antiphon transcribe`.

    A recording that fails does not stop the others; its printed part stays.
    """
    given = Given.of(context)
    given.allow(OPTIONS, server)
    client, values = Client(server), given.every
    path = "/v1/audio/translations" if values["translate"] else "/v1/audio/transcriptions"
    failures = 0
    # Read in this thread, where Ctrl-C interrupts the read.
    piped = sys.stdin.buffer.read() if "-" in names else b""
    request = TranscriptRequest(client, path, values["format_"], values["words"], _fields(given), piped)
    uploads = [_Upload(name) for name in names]
    with ThreadPoolExecutor(min(UPLOADS_AT_ONCE, len(names))) as pool:
        for upload in uploads:
            upload.ended = pool.submit(upload.run, request.transcribe)
        try:
            for index, upload in enumerate(uploads):
                failures += not _write(index, upload, destination)
        except BaseException:  # Ctrl-C: cancel waiting uploads, cut off running ones
            for upload in uploads:
                if upload.ended is not None:
                    upload.ended.cancel()
            client.close()
            raise
    if failures:
        report_failures(failures, len(names))


def _write(index: int, upload: _Upload, destination: TranscriptOutput) -> bool:
    """Write a transcript as its parts arrive, or to its file at the end; return False if it failed."""
    assert upload.ended is not None
    parts: list[str] = []
    while (part := upload.parts.get()) is not None:
        parts.append(part)
        if destination.is_printed:
            destination.print_part(index, part)
    try:
        seconds = upload.ended.result()
    except AntiphonError as error:
        if destination.is_printed and parts and not parts[-1].endswith("\n"):
            destination.print_part(index, "\n")
        print(f"antiphon: {upload.name}: {error}", file=sys.stderr)
        return False
    file = None if destination.is_printed else destination.write(index, "".join(parts))
    written = "" if file is None else f" -> {file}"
    print(f"{upload.name}{written}: transcribed in {seconds:.2f} s", file=sys.stderr)
    return True


def _fields(given: Given) -> list[tuple[str, str]]:
    """Return the form fields that the user gave: standard fields, and Antiphon's own."""
    fields = [("model", given.every["model"])]
    names = {"language": "language", "prompt": "prompt", "beams": "beam_size", "sequential": "sequential"}
    for name, value in given.select(names).items():
        fields.append((names[name], str(value).lower() if isinstance(value, bool) else str(value)))
    return fields
