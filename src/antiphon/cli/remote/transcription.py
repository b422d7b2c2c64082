"""`antiphon transcribe` with a running server: recordings are uploaded, several at once."""

from __future__ import annotations

import io
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import typer

from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import Client, ServerError
from antiphon.cli.remote.form import Form
from antiphon.cli.remote.given import Given
from antiphon.cli.transcript_output import TranscriptOutput, report_failures
from antiphon.errors import AntiphonError

OPTIONS = (
    "files", "model", "language", "translate", "prompt", "format_", "words", "beams", "sequential", "output",
)  # fmt: skip
UPLOADS_AT_ONCE = 8


def transcribe_remotely(
    context: typer.Context, server: ServerAddress, names: list[str], destination: TranscriptOutput
) -> None:
    """`antiphon transcribe`: transcripts are written in the order of the names.

    A recording that fails does not stop the others.
    """
    given = Given.of(context)
    given.allow(OPTIONS, server)
    client, values = Client(server), given.every
    path = "/v1/audio/translations" if values["translate"] else "/v1/audio/transcriptions"
    format_, words = values["format_"], values["words"]
    fields = _fields(given)
    failures = 0
    # In this thread, where Ctrl-C ends the reading.
    piped = sys.stdin.buffer.read() if "-" in names else b""
    with ThreadPoolExecutor(min(UPLOADS_AT_ONCE, len(names))) as pool:
        running = [pool.submit(_transcript, client, path, fields, name, piped, format_, words) for name in names]
        try:
            for index, (name, future) in enumerate(zip(names, running, strict=True)):
                try:
                    text, seconds = future.result()
                except AntiphonError as error:
                    failures += 1
                    print(f"antiphon: {name}: {error}", file=sys.stderr)
                    continue
                file = destination.write(index, text)
                written = "" if file is None else f" -> {file}"
                print(f"{name}{written}: transcribed in {seconds:.2f} s", file=sys.stderr)
        except BaseException:  # Ctrl-C: what waits is dropped, what runs is cut off
            for future in running:
                future.cancel()
            client.close()
            raise
    if failures:
        report_failures(failures, len(names))


def _fields(given: Given) -> list[tuple[str, str]]:
    """The form's fields: standard ones, and our own where the user asked for them."""
    values = given.every
    wanted = "verbose_json" if values["words"] else values["format_"]
    fields = [("model", values["model"]), ("response_format", wanted)]
    names = {"language": "language", "prompt": "prompt", "beams": "beam_size", "sequential": "sequential"}
    for name, value in given.select(names).items():
        fields.append((names[name], str(value).lower() if isinstance(value, bool) else str(value)))
    if values["words"]:
        fields += [("timestamp_granularities[]", kind) for kind in ("segment", "word")]
    return fields


def _transcript(
    client: Client, path: str, fields: list[tuple[str, str]], name: str, piped: bytes, format_: str, words: bool
) -> tuple[str, float]:
    """The transcript in the format that was asked for, as the embedded command writes it, and how long it took."""
    started = time.perf_counter()
    try:
        with io.BytesIO(piped) if name == "-" else open(name, "rb") as stream:
            form = Form(fields, "stdin" if name == "-" else Path(name).name, stream)
            with client.send(path, form, form.size, form.content_type) as response:
                if "json" in format_:
                    text = _rendered(response.json(), client)
                elif words:
                    text = _word_times(response.json(), client, format_)
                else:
                    text = response.read().decode()
    except UnicodeDecodeError as error:
        raise ServerError(f"{client.address.url} sent a transcript that is not UTF-8: {error}") from error
    except OSError as error:
        raise ServerError(f"cannot send {name}: {error.strerror or error}") from error
    return text if text.endswith("\n") else text + "\n", time.perf_counter() - started


def _rendered(content: Any, client: Client) -> str:
    if not isinstance(content, dict) or "text" not in content:
        raise ServerError(f"{client.address.url} answered without a transcript")
    content.pop("usage", None)
    return json.dumps(content, ensure_ascii=False, indent=2 if len(content) > 1 else None)


def _word_times(content: Any, client: Client, format_: str) -> str:
    """The times of words as text or subtitles, which no server sends: made here from its verbose JSON."""
    from antiphon.runtime.calls.transcript import Word
    from antiphon.runtime.transcription.captions import render_words

    try:
        words = [Word(word["word"], word["start"], word["end"], 1.0) for word in content["words"]]
    except (KeyError, TypeError):
        raise ServerError(f"{client.address.url} answered without the times of words") from None
    return render_words(words, format_)
