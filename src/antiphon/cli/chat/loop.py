"""The chat loop: read a message, answer it, repeat."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

from antiphon import environment
from antiphon.cli.chat import commands
from antiphon.cli.chat.history import FILE_NAME, HistoryFile
from antiphon.cli.chat.input import LineReader, MessageReader, quoted
from antiphon.cli.chat.output import AnswerWriter, PlainWriter, without_echo
from antiphon.cli.chat.state import ChatState, Message
from antiphon.cli.chat_models.interface import AnswerStats, AnswerStream, ChatModel
from antiphon.errors import AntiphonError, ContextLengthError
from antiphon.runtime.loading.sampling_defaults import random_seed

Result = TypeVar("Result")


def converse(model: ChatModel, state: ChatState) -> None:
    """Chat until the end of input: on a terminal with line editing and rendered Markdown, else line by line."""
    if sys.stdin.isatty():
        _say("Type a message, or /help for the commands. Ctrl-D ends the chat.")
    if not _has_cursor_control():
        chat = Chat(model, state, LineReader(), PlainWriter)
        chat.run()
        if chat.has_failed and not sys.stdin.isatty():
            sys.exit(1)  # for scripts; a person has seen the error
        return
    from antiphon.cli.chat.markdown import MarkdownWriter
    from antiphon.cli.chat.terminal_input import TerminalReader

    history = HistoryFile(environment.home() / FILE_NAME)
    reader = TerminalReader(history)
    Chat(model, state, reader, lambda: MarkdownWriter(sys.stdout) if state.renders_markdown else PlainWriter()).run()
    if history.problem is not None:
        _say(f"antiphon: the history was not kept: {history.problem}")


def _has_cursor_control() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    from rich.console import Console

    return not Console(file=sys.stdout).is_dumb_terminal


class Chat:
    """Conversation with a model."""

    def __init__(
        self, model: ChatModel, state: ChatState, reader: MessageReader, make_writer: Callable[[], AnswerWriter]
    ) -> None:
        self.model = model
        self.state = state
        self._reader = reader
        self._make_writer = make_writer
        self._draft = ""  # message that could not be answered
        self.has_failed = False

    def run(self) -> None:
        """Read messages until the end of input. Ctrl-C at the prompt clears the line."""
        while True:
            try:
                typed = self._reader.read(self._draft)
            except EOFError:
                return
            except KeyboardInterrupt:
                if not self._reader.is_interactive:
                    raise
                self._draft = ""
                continue
            self._draft = ""
            try:
                if not self._take(typed):
                    return
            except AntiphonError as error:
                _say(f"antiphon: {error}")
                self.has_failed = True
                if isinstance(error, ContextLengthError):
                    _say("Shorten the message, or start anew with /clear; /save FILE keeps this conversation.")

    def _take(self, typed: str) -> bool:
        """Run a command or answer a message; return whether the chat continues."""
        text = quoted(typed)
        command = commands.parse(typed.strip()) if text is None else None
        if command is not None:
            outcome = commands.run(self.state, self.model.name, *command)
            for line in outcome.lines:
                _say(line)
            if outcome.regenerates:
                self._regenerate()
            return not outcome.ends
        text = typed.strip("\n").rstrip() if text is None else text
        if text.strip():
            self._send(text)
        return True

    def _send(self, text: str) -> None:
        """Answer a message; if there is no answer, keep the message as a draft."""
        self._draft = text
        answer = self._answer(self.state.prompt(text), self.state.settings)
        if answer:
            self._draft = ""
            self.state.add_turn(text, answer)

    def _regenerate(self) -> None:
        """Answer the last message again with another seed; keep the old answer if there is no new one."""
        before = self.state.without_last_turn()
        assert before is not None
        state, text = before
        answer = self._answer(state.prompt(text), {**self.state.settings, "seed": random_seed()})
        if answer:
            self.state.messages = state.messages
            self.state.add_turn(text, answer)

    def _answer(self, prompt: list[Message], settings: dict[str, Any]) -> str:
        """Display and return the answer. Ctrl-C stops it; the text so far counts as the answer."""
        writer = self._make_writer()
        pieces: list[str] = []
        stream: AnswerStream | None = None
        reading: Iterator[str] = iter(())
        with without_echo(), InterruptibleWaits() as waits:
            try:
                try:
                    stream = waits.call(lambda: self.model.answer(prompt, settings))
                    reading = iter(stream)
                    while (piece := waits.call(lambda: next(reading, None))) is not None:
                        pieces.append(piece)
                        writer.write(piece)
                except KeyboardInterrupt:
                    if stream is not None:
                        stream.cancel()
                        for piece in reading:
                            pieces.append(piece)
                            writer.write(piece)
            finally:
                if pieces or (stream is not None and not waits.was_interrupted):
                    writer.finish()
        if waits.was_interrupted:
            _say("(stopped)")
        if stream is not None:
            self._report(stream.stats(), settings)
        return "".join(pieces)

    def _report(self, stats: AnswerStats, settings: dict[str, Any]) -> None:
        if stats.finish_reason == "length":
            limit = settings.get("max_tokens")
            if limit is not None and stats.completion_tokens >= limit:
                _say(f"The answer reached max_tokens, {limit}; `/set max_tokens N` allows longer ones.")
            else:
                total = stats.prompt_tokens + stats.completion_tokens
                _say(f"The context is full after {total} tokens; /save FILE keeps it, /clear starts anew.")
        if self.state.shows_stats:
            _say(stats.line())


class InterruptibleWaits:
    """Waits for text that Ctrl-C interrupts. While text is displayed, Ctrl-C takes effect at the next wait."""

    def __init__(self) -> None:
        self.was_interrupted = False
        self._is_waiting = False
        self._previous: Any = None

    def call(self, wait: Callable[[], Result]) -> Result:
        self._is_waiting = True
        try:
            if self.was_interrupted:
                raise KeyboardInterrupt
            return wait()
        finally:
            self._is_waiting = False

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.was_interrupted and not self._is_waiting:  # second Ctrl-C: the answer does not end
            raise KeyboardInterrupt
        self.was_interrupted = True
        if self._is_waiting:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)


def _say(text: str) -> None:
    """Print a line of the program's own to standard error, after the answer so far."""
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)
