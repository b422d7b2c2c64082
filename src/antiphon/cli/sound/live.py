"""`antiphon transcribe --live`: text while the sound of a microphone, a pipe or a file arrives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antiphon.cli.sound.audio_devices import audio_devices
from antiphon.errors import AudioError

if TYPE_CHECKING:
    from antiphon.runtime.calls.transcript import LiveUpdate, Transcript
    from antiphon.runtime.frontend.engine import Engine

LIVE_CHUNK_SECONDS = 0.25
SPEECH_RATE = 16_000


def transcribe_live(engine: Engine, name: str | None, wanted: dict[str, Any]) -> Transcript:
    """Print final text and, on a terminal, the part after it that may still change. Ctrl-C ends the recording."""
    screen = _Screen()
    with engine.listen(screen.show, **wanted) as session:
        try:
            for chunk in _microphone() if name is None else _pieces(name):
                session.push(chunk)
        except KeyboardInterrupt:
            pass
        transcript = session.finish()
    screen.end()
    return transcript


class _Screen:
    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()

    def show(self, update: LiveUpdate) -> None:
        if self._is_terminal:
            # Erase the old tail, write the final text, save the cursor's position, write the new tail dimly.
            sys.stdout.write(f"\x1b[J{update.text}\x1b7\x1b[2m{update.tail}\x1b[0m\x1b8")
        else:
            sys.stdout.write(update.text)
        sys.stdout.flush()

    def end(self) -> None:
        sys.stdout.write("\x1b[J\n" if self._is_terminal else "\n")
        sys.stdout.flush()


def _pieces(name: str) -> Iterator[Any]:
    from antiphon.audio.decode import decode_stream

    source: Any = sys.stdin.buffer if name == "-" else Path(name)
    with decode_stream(source, chunk_seconds=LIVE_CHUNK_SECONDS) as stream:
        yield from stream


def _microphone() -> Iterator[Any]:
    sounddevice = audio_devices("input")
    frames = round(LIVE_CHUNK_SECONDS * SPEECH_RATE)
    try:
        with sounddevice.InputStream(samplerate=SPEECH_RATE, channels=1, dtype="float32") as stream:
            print("listening; Ctrl-C ends", file=sys.stderr)
            while True:
                samples, _ = stream.read(frames)
                yield samples[:, 0].copy()
    except sounddevice.PortAudioError as error:
        raise AudioError(f"the microphone cannot be opened: {error}") from error
