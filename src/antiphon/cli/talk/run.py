"""Conversations with a recording, with a microphone, or with a key that begins and ends turns."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.cli.sound.audio_devices import audio_devices
from antiphon.cli.talk.loop import BLOCK, Session, Talk
from antiphon.cli.talk.outputs import AnswerOutput, FileOutput, SpeakerOutput
from antiphon.cli.talk.screen import Screen
from antiphon.errors import AudioError, EngineError

NO_MICROPHONE = "give a recording with --input"
HANDS_FREE = "Speak; Ctrl-C stops an answer, and ends the conversation when nothing is being said."
START, STOP = "Press Enter to speak.", "Listening; press Enter when you are done."


@dataclass(frozen=True)
class Setup:
    """Source and destination of sound: None for the microphone and the speaker."""

    recording: Floats | None
    output: Path | None
    is_manual: bool
    shows_waterfall: bool = False

    @property
    def has_echo(self) -> bool:
        """Whether the microphone may hear the answer."""
        return self.recording is None and self.output is None and not self.is_manual

    def check_devices(self) -> None:
        """Raise AudioError for a missing device, before a model is loaded."""
        if self.recording is None:
            audio_devices("input", NO_MICROPHONE)
        if self.output is None:
            audio_devices("output")


async def converse(session: Session, setup: Setup) -> None:
    """Hold a conversation until its recording has been answered or the person ends it."""
    clock = asyncio.get_running_loop().time
    output: AnswerOutput = SpeakerOutput() if setup.output is None else FileOutput(setup.output, clock)
    screen = Screen(setup.shows_waterfall)
    try:
        talk = Talk(session, output, screen, setup.is_manual)
        await _run(talk, setup, screen, output)
    finally:
        screen.close()
        output.close()


async def _run(talk: Talk, setup: Setup, screen: Screen, output: AnswerOutput) -> None:
    following = asyncio.create_task(talk.follow())
    output.begin()
    if setup.recording is not None:
        work = asyncio.create_task(talk.recording(setup.recording))
    elif setup.is_manual:
        work = asyncio.create_task(_push_to_talk(talk, screen))
    else:
        work = asyncio.create_task(_hands_free(talk, screen))
    try:
        with _interrupts(lambda: setup.recording is None and talk.interrupt(), work):
            await asyncio.wait([work, following], return_when=asyncio.FIRST_COMPLETED)
        if following.done() and not work.done():
            following.result()
            raise EngineError("the conversation was closed by the server")
        if work.cancelled() and setup.recording is not None:
            raise KeyboardInterrupt
        if not work.cancelled():
            work.result()
    finally:
        for task in (work, following):
            task.cancel()
        await asyncio.gather(work, following, return_exceptions=True)


@contextmanager
def _interrupts(stop: Callable[[], bool], work: asyncio.Task[None]) -> Iterator[None]:
    """Make Ctrl-C stop the answer, or end the work if there is no answer."""
    loop = asyncio.get_running_loop()

    def take() -> None:
        if not stop():
            work.cancel()

    try:
        loop.add_signal_handler(signal.SIGINT, take)
    except (NotImplementedError, ValueError, RuntimeError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def _microphone(take: Callable[[Floats], None]) -> Iterator[None]:
    """Pass the microphone's sound to `take` in blocks, in the event loop."""
    sounddevice, loop = audio_devices("input", NO_MICROPHONE), asyncio.get_running_loop()

    def hear(block: Floats, *_: object) -> None:
        loop.call_soon_threadsafe(take, block[:, 0].copy())

    try:
        options = dict(samplerate=SPEECH_RATE, channels=1, dtype="float32", blocksize=BLOCK)
        stream = sounddevice.InputStream(callback=hear, **options)
        stream.start()
    except sounddevice.PortAudioError as error:
        raise AudioError(f"the microphone cannot be opened: {error}") from error
    try:
        yield
    finally:
        stream.close()


async def _hands_free(talk: Talk, screen: Screen) -> None:
    screen.line(HANDS_FREE)
    with _microphone(talk.hear):
        await talk.has_ended.wait()


async def _push_to_talk(talk: Talk, screen: Screen) -> None:
    """Begin a turn on Enter and end it on the next Enter; end the conversation with standard input."""
    is_recording = False
    lines = _lines()

    def hear(samples: Floats) -> None:
        if is_recording:
            talk.hear(samples)

    with _microphone(hear):
        screen.line(f"{START} Ctrl-C or Ctrl-D ends the conversation.")
        while await lines.get():
            if is_recording:
                is_recording = False
                talk.ask()
            else:
                talk.interrupt()
                is_recording = True
                screen.hint(STOP)
        await talk.answered()


def _lines() -> asyncio.Queue[bool]:
    """Return a queue that receives True for each line of standard input, and False at its end."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[bool]()

    def read() -> None:
        # Not `sys.stdin`: the thread would hold its lock when the program exits.
        with suppress(OSError, RuntimeError):  # the loop is closed
            while data := os.read(sys.stdin.fileno(), 4096):
                for _ in range(data.count(b"\n")):
                    loop.call_soon_threadsafe(lines.put_nowait, True)
            loop.call_soon_threadsafe(lines.put_nowait, False)

    threading.Thread(target=read, daemon=True, name="antiphon-keys").start()
    return lines
