"""`Screen`: a running conversation, in the terminal or as plain lines."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

from antiphon.runtime.voice.events import (
    ResponseDone,
    ResponseState,
    ResponseStatus,
    SessionError,
    SessionEvent,
    SpokenTextDelta,
    TranscriptDelta,
    TranscriptDone,
    TranscriptFailed,
    UserSpeechStarted,
    UserSpeechStopped,
)
from antiphon.runtime.voice.items import Message
from antiphon.runtime.voice.waterfall import Waterfall

PERSON, MODEL = "You:", "Antiphon:"
INTERRUPTED = "[interrupted]"
ERASE = "\r\x1b[K"
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


class Screen:
    """Display of a conversation. A terminal shows text as it arrives; other outputs get a line per complete turn.

    The line of an interrupted answer has only the part that was heard. Errors go to standard error.
    """

    def __init__(self, shows_waterfall: bool = False, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._shows_waterfall = shows_waterfall
        self._heard: dict[str, str] = {}  # transcripts of turns in progress
        self._answer = ""
        self._is_answering = False
        self._is_interrupted = False
        self._has_live_line = False

    def show(self, event: SessionEvent) -> None:
        match event:
            case UserSpeechStarted(item_id, _):
                self._heard[item_id] = ""
                self._live(f"{PERSON} …")
            case TranscriptDelta(item_id, _, text):
                self._heard[item_id] = self._heard.get(item_id, "") + text
                self._live(f"{PERSON} {self._heard[item_id].strip()} …")
            case UserSpeechStopped():
                pass
            case TranscriptDone(item_id, _, text):
                self._heard.pop(item_id, None)
                self._erase()
                if text.strip():
                    self.line(f"{PERSON} {text.strip()}")
            case TranscriptFailed(item_id, _, message):
                self._heard.pop(item_id, None)
                self.error(f"what was said could not be transcribed: {message}")
            case SpokenTextDelta(_, text):
                self._write_answer(text)
            case ResponseDone(response):
                self._end_answer(response)
            case SessionError():
                self.error(event.message)

    def line(self, text: str) -> None:
        """Print a line that stays."""
        self._erase()
        self._write(f"{text}\n")

    def hint(self, text: str) -> None:
        """Show a hint on a terminal until other text replaces it."""
        self._live(text)

    def error(self, message: str) -> None:
        self._erase()
        print(f"antiphon: {message}", file=sys.stderr, flush=True)

    def interrupted(self) -> None:
        """Mark the answer as interrupted: the person does not hear the rest of it."""
        if not self._is_answering:
            self.line(INTERRUPTED)
        self._is_interrupted = True

    def close(self) -> None:
        self._erase()

    # -- answers ------------------------------------------------------------------------------------------------

    def _write_answer(self, text: str) -> None:
        if not self._is_answering:
            self._erase()
            self._is_answering, self._is_interrupted, self._answer = True, False, ""
            if self._is_terminal:
                self._write(f"{MODEL} ")
        text = text if self._answer else text.lstrip()
        self._answer += text
        if self._is_terminal:
            self._write(text)

    def _end_answer(self, response: ResponseState) -> None:
        if response.error is not None:
            if self._is_answering and self._is_terminal:
                self._write("\n")
            self.error(f"there is no answer: {response.error[1]}")
        elif self._is_answering:
            is_cut = self._is_interrupted or response.status is ResponseStatus.CANCELLED
            text = " ".join((_heard(response) if is_cut else self._answer).split())
            end = f" {INTERRUPTED}" if is_cut else ""
            self._write(f"{end}\n" if self._is_terminal else f"{MODEL} {text}{end}\n")
            self._show_times(response.waterfall)
        self._is_answering = False

    def _show_times(self, waterfall: Waterfall) -> None:
        lines = time_lines(waterfall, self._shows_waterfall)
        before, after = (DIM, PLAIN) if self._is_terminal else ("", "")
        for line in lines:
            self._write(f"  {before}{line}{after}\n")

    # -- the terminal -------------------------------------------------------------------------------------------

    def _live(self, text: str) -> None:
        """Show a line that the next one replaces; only its end, if it is wider than the terminal."""
        if not self._is_terminal or self._is_answering:
            return
        columns = shutil.get_terminal_size().columns - 1
        self._write(f"{ERASE}{text if len(text) <= columns else '…' + text[1 - columns :]}")
        self._has_live_line = True

    def _erase(self) -> None:
        if self._has_live_line:
            self._write(ERASE)
            self._has_live_line = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _heard(response: ResponseState) -> str:
    """Return the part of an interrupted answer that was heard."""
    return " ".join(item.text for item in response.output if isinstance(item, Message))


def time_lines(waterfall: Waterfall, is_whole: bool = False) -> list[str]:
    """Return a turn's latency and, if `is_whole`, its marks; a star marks those that delayed the first sound."""
    marks = waterfall.milliseconds()
    if "first_sound" not in marks:
        return []
    start = "the end of speech" if waterfall.speech_ended is not None else "the request"
    lines = [f"first sound {marks['first_sound'] / 1000:.2f} s after {start}"]
    if is_whole:
        critical = {stage.name for stage in waterfall.critical_path()}
        for stage in sorted(waterfall.stages(), key=lambda stage: stage.end):
            star = "*" if stage.name in critical else " "
            took = f"{1000 * stage.seconds:.0f} ms after {stage.waited_for.replace('_', ' ')}"
            lines.append(f"{star} {marks[stage.name]:6d} ms  {stage.name.replace('_', ' '):22} {took}")
    return lines
