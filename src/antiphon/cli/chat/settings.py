"""Settings of `/set`: their names, parsing and display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from antiphon.cli.chat.state import ChatState
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError

#: Parsers of the model's settings, by their names in `SamplingParams`.
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
#: Display settings and their fields in `ChatState`.
SWITCHES = {"stats": "shows_stats", "markdown": "renders_markdown"}
NAMES = (*SAMPLING, *SWITCHES)
#: Value that restores the model's own setting.
DEFAULT = "default"
#: Possible values of settings, for completion.
VALUES = {"speculate": (*Speculation, DEFAULT)}
KINDS: dict[Callable[[str], Any], str] = {float: "a number", int: "a whole number", str: "text"}


def check(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings if they are known and `SamplingParams` accepts them; raise InvalidRequestError otherwise."""
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
    """Change a setting; an invalid value raises the same error as the command's option."""
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
    """Format every setting and its value, one per line."""
    lines = [f"{name:<20}{_text(state.settings.get(name))}" for name in SAMPLING]
    return lines + [f"{name:<20}{'on' if getattr(state, field) else 'off'}" for name, field in SWITCHES.items()]


def _text(value: Any) -> str:
    if value is None:
        return DEFAULT
    return " ".join(map(repr, value)) if isinstance(value, tuple) else f"{value:g}" if value == 0 else str(value)
