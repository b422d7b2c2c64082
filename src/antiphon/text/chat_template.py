"""Chat templates: a conversation rendered as the prompt that a model was trained on.

What a message says is text, even if it spells a control token: `ChatTemplate.prompt` breaks such spellings in messages,
tools and options with a guard character that occurs nowhere else, renders the template, and drops the guard when it
encodes. So only the template's own markers become control tokens; all other text is encoded as usual.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from antiphon.errors import OverloadedError, TemplateError
from antiphon.text.known_templates import is_known
from antiphon.text.template_process import compile_in_process, render_in_process
from antiphon.text.template_sandbox import CompiledTemplate
from antiphon.text.tokenization.tokenizer import Tokenizer

#: Maximum length of a template. Published ones have 100 to 20,000 characters.
MAX_TEMPLATE_CHARACTERS = 200_000
#: Maximum renderings of one template, running or waiting for a process.
MAX_RENDERINGS = 8
#: Maximum seconds that another rendering waits for its turn.
TURN_SECONDS = 1.0
#: Maximum characters of messages that a known template renders in this process, and the characters added per string.
SMALL_CHARACTERS = 100_000
STRING_CHARACTERS = 50
TOOL_TEMPLATE = "tool_use"
#: Code points that may guard a rendering: private use first, then unassigned ones.
GUARDS = (range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE), range(0x40000, 0xE0000))
#: Random guards tried before a full search; all fail only if the texts use a large part of all guards.
GUARD_GUESSES = 64


@dataclass(frozen=True)
class ChatPrompt:
    """A conversation as text and as token ids; only the ids tell control tokens from their spellings."""

    text: str
    ids: list[int]


class ChatTemplate:
    """A chat template. Rendering changes no state, so all requests of a model share one object.

    Templates are untrusted programs: they are compiled and rendered in a process with limits of memory and time. Only a
    template known to be harmless is rendered in this process, and only if the messages are short.

    `special_tokens` are the spellings that the template may name, such as `bos_token="<s>"`.
    """

    def __init__(self, source: str, **special_tokens: str | None) -> None:
        if len(source) > MAX_TEMPLATE_CHARACTERS:
            raise TemplateError(
                f"the chat template has {len(source):,} characters; at most {MAX_TEMPLATE_CHARACTERS:,} are allowed"
            )
        self.source = source
        self._special_tokens = {name: text for name, text in special_tokens.items() if text is not None}
        self._compiled = CompiledTemplate(source) if is_known(source) else None
        if self._compiled is None:
            compile_in_process(source)
        self._turns = threading.Semaphore(MAX_RENDERINGS)

    @classmethod
    def for_tokenizer(cls, source: str, tokenizer: Tokenizer) -> ChatTemplate:
        """Return the template with the begin, end, unknown and padding tokens of the tokenizer."""
        special = tokenizer.special
        ids = {
            "bos_token": special.bos_id,
            "eos_token": special.eos_id,
            "unk_token": special.unknown_id,
            "pad_token": special.pad_id,
        }
        spelled = {
            name: tokenizer.token_bytes(token_id).decode("utf-8", errors="replace")
            for name, token_id in ids.items()
            if token_id is not None
        }
        return cls(source, **spelled)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **extra: Any,
    ) -> str:
        """Return the prompt as text, or raise `TemplateError` if the template rejects the messages or fails.

        Use it only to read: `prompt` tells the template's markers from messages that spell them.
        """
        return self._render(_given(messages, tools, extra), add_generation_prompt)

    def prompt(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        max_tokens: int | None = None,
        **extra: Any,
    ) -> ChatPrompt:
        """Return the conversation, rendered and encoded; control tokens come from the template alone.

        Raise `TooManyTokensError` for a prompt of more than `max_tokens`, before all of it is encoded.
        """
        given = _given(messages, tools, extra)
        (guard,) = _find_guards(given, self.source, 1)
        guarded = _mapped(given, lambda text: tokenizer.guarded(text, guard))
        text = self._render(guarded, add_generation_prompt, guard)
        return ChatPrompt(text.replace(guard, ""), tokenizer.encode_guarded(text, guard, max_tokens))

    def open_prompt(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        max_tokens: int | None = None,
        **extra: Any,
    ) -> ChatPrompt:
        """Return the conversation up to the end of its last message, which a model continues.

        The options are those of `prompt`.
        """
        given = _given(messages, tools, extra)
        guard, mark = _find_guards(given, self.source, 2)
        guarded = _mapped(given, lambda text: tokenizer.guarded(text, guard))
        # If the template strips messages, the blank after the mark is gone; the text before it is then stripped too.
        guarded["messages"][-1]["content"] += mark + " "
        text = self._render(guarded, False, guard)
        end = text.rfind(mark)
        if end < 0:
            raise TemplateError("the chat template does not write the last message, so it cannot be continued")
        text = text[:end] if text[end : end + 2] == mark + " " else text[:end].rstrip()
        return ChatPrompt(text.replace(guard, ""), tokenizer.encode_guarded(text, guard, max_tokens))

    def _render(self, given: dict[str, Any], add_generation_prompt: bool, guard: str = "") -> str:
        variables: dict[str, Any] = {**self._special_tokens, "documents": None, **given}
        variables["add_generation_prompt"] = add_generation_prompt
        if self._compiled is not None and _is_small(given):
            return self._compiled.render(variables, guard)
        if not self._turns.acquire(timeout=TURN_SECONDS):
            raise OverloadedError(f"{MAX_RENDERINGS} renderings of this chat template are waiting or under way")
        try:
            return render_in_process(self.source, variables, guard)
        finally:
            self._turns.release()


def find_chat_template(source: Mapping[str, Any], *, tools: bool = False) -> str | None:
    """Return the template in GGUF metadata or in a parsed `tokenizer_config.json`, or None if there is no template.

    If the model has several, return the one for tools if `tools` is set, else the default.
    """
    named: dict[str, str] = {}
    for key, value in source.items():
        if key in ("tokenizer.chat_template", "chat_template"):
            named.update(_named_templates(value))
        elif key.startswith("tokenizer.chat_template.") and isinstance(value, str):
            named[key.removeprefix("tokenizer.chat_template.")] = value
    if tools and TOOL_TEMPLATE in named:
        return named[TOOL_TEMPLATE]
    return named.get("default")


def _named_templates(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield "default", value
    elif isinstance(value, Sequence):
        for entry in value:
            if isinstance(entry, Mapping) and isinstance(entry.get("template"), str):
                yield str(entry.get("name", "default")), entry["template"]


def _given(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, extra: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        **{name: _plain(value) for name, value in extra.items()},
        "messages": [_plain(message) for message in messages],
        "tools": None if tools is None else [_plain(tool) for tool in tools],
    }


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy with every string changed, including keys that are not identifiers."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) and key.isidentifier() else _mapped(key, change): _mapped(item, change)
            for key, item in value.items()
        }
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def _find_guards(given: dict[str, Any], source: str, count: int) -> list[str]:
    """Return `count` characters that neither the caller's values nor the template use."""
    texts = [text for text in (*_strings(given), source) if not text.isascii()]
    guesses = {chr(random.choice(random.choice(GUARDS))) for _ in range(GUARD_GUESSES)}
    found = [guess for guess in guesses if not any(guess in text for text in texts)][:count]
    if len(found) < count:
        used = set().union(*texts)
        free = (chr(number) for guards in GUARDS for number in guards if chr(number) not in used)
        found = list(islice(free, count))
    if len(found) < count:
        raise TemplateError("the messages use every character for private use and every unassigned one")
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _is_small(given: dict[str, Any]) -> bool:
    """Return whether the values are short enough to render within milliseconds."""
    size = 0
    for text in _strings(given):
        size += STRING_CHARACTERS + len(text)
        if size > SMALL_CHARACTERS:
            return False
    return True


def _plain(value: Any) -> Any:
    """Return a copy made of JSON types only: a template could call methods of other objects."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise TemplateError(f"a message holds a {type(value).__name__}, which is not text, number, list or object")
