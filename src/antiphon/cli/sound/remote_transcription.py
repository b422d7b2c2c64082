"""`antiphon transcribe` with a running server: recordings are uploaded, several at once, and stream their text."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import typer

from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import Client
from antiphon.cli.remote.given import Given
from antiphon.cli.remote.running import is_unable
from antiphon.cli.sound.recording_progress import RecordingProgress, sound_seconds
from antiphon.cli.sound.streamed_transcript import TranscriptRequest
from antiphon.cli.sound.transcript_output import TranscriptOutput, report_failures
from antiphon.errors import AntiphonError

UPLOADS_AT_ONCE = 8


@dataclass
class _Upload:
    """Recording transcribed in a thread. `parts` receives the parts of its transcript, then None."""

    index: int
    name: str
    progress: RecordingProgress
    parts: SimpleQueue[str | None] = field(default_factory=SimpleQueue)
    ended: Future[float] | None = None
    total: float | None = None

    def run(self, request: TranscriptRequest) -> float:
        try:
            if self.progress.is_shown and self.name != "-":
                self.total = sound_seconds(Path(self.name))
            return request.transcribe(self.name, self)
        finally:
            self.parts.put(None)

    def put(self, part: str) -> None:
        self.parts.put(part)

    def sent(self, share: float) -> None:
        self.progress.sent(self.index, share)

    def heard(self, seconds: float) -> None:
        self.progress.update(self.index, seconds, self.total)


def transcribe_remotely(
    context: typer.Context, server: ServerAddress, names: list[str], destination: TranscriptOutput, piped: bytes
) -> None:
    """Write the transcripts in the order of the names, each as its parts arrive, for `antiphon transcribe`.

    `piped` is standard input. A recording that fails does not stop the others; its printed part stays. An error of
    `is_unable` before the first part is raised.
    """
    given = Given.of(context)
    client, values = Client(server), given.every
    path = "/v1/audio/translations" if values["translate"] else "/v1/audio/transcriptions"
    failures = 0
    with RecordingProgress(names) as progress, ThreadPoolExecutor(min(UPLOADS_AT_ONCE, len(names))) as pool:
        has_bars = progress.is_shown and not (destination.is_printed and sys.stdout.isatty())
        wanted = _fields(given), piped, has_bars
        request = TranscriptRequest(client, path, values["format_"], values["words"], *wanted)
        uploads = [_Upload(index, name, progress) for index, name in enumerate(names)]
        for upload in uploads:
            upload.ended = pool.submit(upload.run, request)
        try:
            for upload in uploads:
                failures += not _write(upload, destination, server)
        except BaseException:  # Ctrl-C: cancel waiting uploads, cut off running ones
            for upload in uploads:
                if upload.ended is not None:
                    upload.ended.cancel()
            client.close()
            raise
    if failures:
        report_failures(failures, len(names))


def _write(upload: _Upload, destination: TranscriptOutput, server: ServerAddress) -> bool:
    """Write a transcript as its parts arrive, or to its file at the end; return False if it failed."""
    assert upload.ended is not None
    parts: list[str] = []
    while (part := upload.parts.get()) is not None:
        parts.append(part)
        if destination.is_printed:
            _print_part(destination, upload, part)
    try:
        seconds = upload.ended.result()
    except AntiphonError as error:
        if not upload.index and not parts and is_unable(server, error):
            raise
        if destination.is_printed and parts and not parts[-1].endswith("\n"):
            _print_part(destination, upload, "\n")
        with upload.progress.paused():
            print(f"antiphon: {upload.name}: {error}", file=sys.stderr)
        return False
    with upload.progress.paused():
        file = None if destination.is_printed else destination.write(upload.index, "".join(parts))
        written = "" if file is None else f" -> {file}"
        print(f"{upload.name}{written}: transcribed in {seconds:.2f} s", file=sys.stderr)
    return True


def _print_part(destination: TranscriptOutput, upload: _Upload, part: str) -> None:
    """Print a part; on a terminal, the text takes the place of the bars from then on."""
    if sys.stdout.isatty():
        upload.progress.end()
    destination.print_part(upload.index, part)


def _fields(given: Given) -> list[tuple[str, str]]:
    """Return the form fields that the user gave: standard fields, and Antiphon's own."""
    fields = [("model", given.every["model"])]
    names = {"language": "language", "prompt": "prompt", "beams": "beam_size", "sequential": "sequential"}
    for name, value in given.select(names).items():
        fields.append((names[name], str(value).lower() if isinstance(value, bool) else str(value)))
    return fields
