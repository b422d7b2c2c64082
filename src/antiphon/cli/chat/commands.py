"""Commands of a chat: lines that begin with a slash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from antiphon.cli.chat import settings, transcript
from antiphon.counted import counted
from antiphon.errors import InvalidRequestError

if TYPE_CHECKING:
    from antiphon.cli.chat.state import ChatState

COMMAND = re.compile(r"/(?P<name>[a-zA-Z?]+)(?:\s+(?P<argument>.*))?", re.DOTALL)
#: Arguments of /system that remove the system message.
NOTHING = ('""', "''")
KEYS = (
    'Begin a message with """ to write several lines; """ ends it. Pasted lines stay one message.',
    "Ctrl-C stops an answer or clears the line; Ctrl-D ends the chat; Up recalls earlier messages.",
)


class CommandResult(NamedTuple):
    """Lines to print, and the chat's next action."""

    lines: list[str]
    ends: bool = False
    regenerates: bool = False


@dataclass(frozen=True)
class Command:
    """Command of a chat, with its argument and help as /help shows them."""

    name: str
    argument: str
    help: str
    run: Callable[[ChatState, str, str], CommandResult]


def parse(text: str) -> tuple[str, str] | None:
    """Return a command and its argument, or None for a message, such as a path or comment that begins with a slash."""
    match = COMMAND.fullmatch(text)
    if match is None or ("\n" in text and match["name"].lower() not in COMMANDS):
        return None
    return match["name"].lower(), (match["argument"] or "").strip()


def run(state: ChatState, model: str, name: str, argument: str) -> CommandResult:
    """Run a command; raise InvalidRequestError if it is unknown or cannot be done."""
    command = COMMANDS.get(ALIASES.get(name, name))
    if command is None:
        raise InvalidRequestError(
            f'there is no command /{name}; /help lists them (a message that begins with / goes between """)'
        )
    if argument and not command.argument:
        raise InvalidRequestError(f"/{name} takes no argument")
    return command.run(state, model, argument)


def _help(state: ChatState, model: str, argument: str) -> CommandResult:
    rows = [(f"/{command.name} {command.argument}".rstrip(), command.help) for command in COMMANDS.values()]
    return CommandResult([*(f"{usage:<20}{text}" for usage, text in rows), *KEYS])


def _save(state: ChatState, model: str, argument: str) -> CommandResult:
    path = _path("save", argument)
    replaced = transcript.save(path, state, model)
    what = counted(len(state.messages), "message")
    return CommandResult([f"Saved {what} to {path}{', replacing an older conversation' if replaced else ''}."])


def _load(state: ChatState, model: str, argument: str) -> CommandResult:
    path = _path("load", argument)
    held_with = transcript.load(path, state)
    other = "" if held_with == model else f" It was held with {held_with}; {model} continues it."
    return CommandResult([f"Loaded {counted(len(state.messages), 'message')} from {path}.{other}"])


def _set(state: ChatState, model: str, argument: str) -> CommandResult:
    if not argument:
        return CommandResult(
            [*settings.shown(state), f"`/set NAME {settings.DEFAULT}` restores the model's own setting."]
        )
    name, _, value = argument.partition(" ")
    if not value.strip():
        raise InvalidRequestError(f"/set {name} needs a value; /set alone shows the settings")
    settings.set_value(state, name, value.strip())
    return CommandResult([f"{name} is now {value.strip()}."])


def _regen(state: ChatState, model: str, argument: str) -> CommandResult:
    if state.without_last_turn() is None:
        raise InvalidRequestError("there is no message to answer again yet")
    return CommandResult([], regenerates=True)


def _system(state: ChatState, model: str, argument: str) -> CommandResult:
    if not argument:
        return CommandResult([state.system or "There is no system message."])
    if argument in NOTHING:
        state.system = None
        return CommandResult(["System message removed."])
    state.system = argument
    return CommandResult(["System message set."])


def _clear(state: ChatState, model: str, argument: str) -> CommandResult:
    state.messages.clear()
    return CommandResult(["Conversation cleared."])


def _exit(state: ChatState, model: str, argument: str) -> CommandResult:
    return CommandResult([], ends=True)


def _path(command: str, argument: str) -> Path:
    if len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "\"'":
        argument = argument[1:-1]
    if not argument:
        raise InvalidRequestError(f"/{command} needs a file name")
    try:
        return Path(argument).expanduser()
    except RuntimeError as error:
        raise InvalidRequestError(f"cannot find the home folder of {argument}") from error


COMMANDS = {
    command.name: command
    for command in (
        Command("help", "", "Show this help.", _help),
        Command("save", "FILE", "Save the conversation, the system message and the settings as JSON.", _save),
        Command("load", "FILE", "Replace the conversation by a saved one.", _load),
        Command("set", "[NAME VALUE]", "Change a setting; alone, show the settings.", _set),
        Command("regen", "", "Answer the last message again, with another seed.", _regen),
        Command("system", "[TEXT]", 'Set the system message; alone, show it; "" removes it.', _system),
        Command("clear", "", "Start a new conversation.", _clear),
        Command("exit", "", "End the chat.", _exit),
    )
}
ALIASES = {"?": "help", "reset": "clear", "quit": "exit", "bye": "exit"}


def completions(line: str) -> Iterator[tuple[str, int, str]]:
    """Yield completions of a line that begins with a slash: text, number of characters it replaces, and description."""
    if not line.startswith("/") or "\n" in line:
        return
    name, space, argument = line[1:].partition(" ")
    if not space:
        for command in COMMANDS.values():
            if command.name.startswith(name):
                yield f"/{command.name}", len(line), command.help
        return
    if name != "set":
        return
    setting, space, value = argument.partition(" ")
    if not space:
        yield from ((known, len(setting), "") for known in settings.NAMES if known.startswith(setting))
    else:
        values = ("on", "off") if setting in settings.SWITCHES else settings.VALUES.get(setting, (settings.DEFAULT,))
        yield from ((known, len(value), "") for known in values if known.startswith(value))
