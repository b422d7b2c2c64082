"""Messages typed at a terminal: editing, paste, several lines, history and completion, by prompt_toolkit."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.completion import generate_completions

from antiphon.cli.chat import commands
from antiphon.cli.chat.history import HistoryFile
from antiphon.cli.chat.input import PROMPT, is_open

FILE_COMMANDS = ("/save ", "/load ")


class TerminalReader:
    """Reader in which Enter sends the message; Alt-Enter, or Enter between three quotes, begins a new line."""

    is_interactive = True

    def __init__(self, history: HistoryFile) -> None:
        completer = _CommandCompleter()
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=_KeptHistory(history),
            completer=completer,
            complete_while_typing=Condition(self._is_command),
            multiline=True,
            prompt_continuation="  ",
            key_bindings=_bindings(completer),
            reserve_space_for_menu=len(commands.COMMANDS),
        )

    def read(self, draft: str = "") -> str:
        return self._session.prompt(default=draft)

    def _is_command(self) -> bool:
        return self._session.default_buffer.text.startswith("/")


def _bindings(completer: Completer) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter", filter=has_focus(DEFAULT_BUFFER))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("tab", filter=has_focus(DEFAULT_BUFFER))
    def _(event: KeyPressEvent) -> None:
        """Complete at once if there is one completion: prompt_toolkit ignores Tab while it completes during typing."""
        buffer = event.current_buffer
        found = list(completer.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
        if len(found) == 1:
            buffer.cancel_completion()
            buffer.apply_completion(found[0])
        else:
            generate_completions(event)

    return bindings


class _CommandCompleter(Completer):
    def __init__(self) -> None:
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        if line.startswith(FILE_COMMANDS):
            argument = line.partition(" ")[2]
            yield from self._paths.get_completions(Document(argument, len(argument)), complete_event)
        for text, replaced, meaning in commands.completions(line):
            yield Completion(text, -replaced, display_meta=meaning)


class _KeptHistory(History):
    """History of earlier chats, extended by this one."""

    def __init__(self, file: HistoryFile) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._file.load())

    def store_string(self, string: str) -> None:
        self._file.append(string)
