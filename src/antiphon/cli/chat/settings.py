"""The settings of `/set`: their names, how their values are read, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from antiphon.cli.chat.state import ChatState
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError

#: Settings of the model under the names of `SamplingParams`, and what their values are.
SAMPLING: dict[str, Callable[[str], Any]] = {
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "min_p": float,
    "repetition_penalty": float,
    "presence_penalty": float,
    "frequency_penalty": float,
    "seed": int,
    "max_tokens": int,
    "stop": lambda text: (text,),
    "speculate": str,
}
#: Settings of the display, and the fields of `ChatState`.
SWITCHES = {"stats": "shows_stats", "markdown": "renders_markdown"}
NAMES = (*SAMPLING, *SWITCHES)
#: Gives the choice back to the model.
DEFAULT = "default"
#: Settings whose values are few, for completion.
VALUES = {"speculate": (*Speculation, DEFAULT)}
KINDS: dict[Callable[[str], Any], str] = {float: "a number", int: "a whole number", str: "text"}


def check(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, if `SamplingParams` accepts them; an InvalidRequestError otherwise."""
    unknown = sorted(set(settings) - set(SAMPLING))
    if unknown:
        raise InvalidRequestError(f"there is no setting {unknown[0]!r}; there are: {', '.join(NAMES)}")
    for name, value in settings.items():
        kind = SAMPLING[name]
        wanted = (int, float) if kind is float else (kind,) if isinstance(kind, type) else (tuple,)
        is_text = not isinstance(value, tuple) or all(isinstance(text, str) for text in value)
        if not isinstance(value, wanted) or isinstance(value, bool) or not is_text:
            raise InvalidRequestError(f"{name} is {value!r}; it must be {KINDS.get(kind, 'a list of texts')}")
    SamplingParams(**settings)
    return dict(settings)


def set_value(state: ChatState, name: str, text: str) -> None:
    """Change a setting; what makes no sense is rejected with the same errors as the options of the command."""
    name = name.lower().replace("-", "_")
    if name in SWITCHES:
        if text not in ("on", "off"):
            raise InvalidRequestError(f"{name} is {text!r}; it must be on or off")
        setattr(state, SWITCHES[name], text == "on")
        return
    if name not in SAMPLING:
        raise InvalidRequestError(f"there is no setting {name!r}; there are: {', '.join(NAMES)}")
    if text == DEFAULT:
        state.settings.pop(name, None)
        return
    read = SAMPLING[name]
    try:
        value = read(text)
    except ValueError:
        raise InvalidRequestError(f"{name} is {text!r}; it must be {KINDS[read]}") from None
    state.settings = check({**state.settings, name: value})


def shown(state: ChatState) -> list[str]:
    """Every setting and its value, a line each."""
    lines = [f"{name:<20}{_text(state.settings.get(name))}" for name in SAMPLING]
    return lines + [f"{name:<20}{'on' if getattr(state, field) else 'off'}" for name, field in SWITCHES.items()]


def _text(value: Any) -> str:
    if value is None:
        return DEFAULT
    return " ".join(map(repr, value)) if isinstance(value, tuple) else f"{value:g}" if value == 0 else str(value)
