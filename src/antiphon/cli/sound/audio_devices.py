"""Microphones and speakers, through PortAudio. Errors about missing parts say what to install."""

from __future__ import annotations

from typing import Any, Literal

from antiphon.dependencies import import_dependency
from antiphon.errors import AudioError

PORTAUDIO = "`apt install libportaudio2` on Debian and Ubuntu, `brew install portaudio` on macOS"
NAMES = {"input": "microphone", "output": "speaker"}
INSTEAD = {"input": "give a recording, or '-' for standard input", "output": "write a file with --output"}


def audio_devices(kind: Literal["input", "output"], instead: str | None = None) -> Any:
    """Return the package for audio devices; raise AudioError without a device of this kind.

    `instead` names an alternative.
    """
    name = NAMES[kind]
    try:
        sounddevice = import_dependency("sounddevice", f"the {name}", "microphone")
    except OSError as error:
        raise AudioError(f"the {name} needs the PortAudio library: {PORTAUDIO}") from error
    try:
        sounddevice.query_devices(kind=kind)
    except (sounddevice.PortAudioError, ValueError) as error:
        raise AudioError(f"no {name} was found ({error}); {instead or INSTEAD[kind]}") from error
    return sounddevice
