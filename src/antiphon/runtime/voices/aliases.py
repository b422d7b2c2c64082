"""Aliases of voices, the names that clients of OpenAI's API use, and the voices that they stand for on each model."""

from __future__ import annotations

from collections.abc import Collection, Mapping

#: OpenAI's voices and the Kokoro voices that replace them: of the same name where Kokoro has it, otherwise of the same
#: gender and a similar tone. All are different.
DEFAULT_VOICE_ALIASES = {
    "alloy": "af_alloy",
    "ash": "am_michael",
    "ballad": "bm_george",
    "cedar": "am_puck",
    "coral": "af_bella",
    "echo": "am_echo",
    "fable": "bm_fable",
    "marin": "af_heart",
    "nova": "af_nova",
    "onyx": "am_onyx",
    "sage": "af_sarah",
    "shimmer": "af_sky",
    "verse": "am_fenrir",
}


def parts_of(voice: str) -> list[tuple[str, str]]:
    """Split a voice or mixture into pairs of a name and a weight, which keeps its colon (empty if not given)."""
    parts = (part.partition(":") for part in voice.split("+"))
    return [(name.strip(), colon + weight) for name, colon, weight in parts]


def aliases_for(voices: Collection[str], default: str, configured: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the voice or mixture that each alias stands for on a model with these voices.

    On a model with one voice, all aliases stand for it. A default alias whose voice the model lacks stands for
    `default`; a configured one is left out. A name of one of the model's own voices is no alias.
    """
    configured = configured or {}
    aliases = {}
    for alias, target in {**DEFAULT_VOICE_ALIASES, **configured}.items():
        if alias in voices:
            continue
        if all(name in voices for name, _ in parts_of(target)):
            aliases[alias] = target
        elif len(voices) == 1 or alias not in configured:
            aliases[alias] = default
    return aliases


def without_aliases(voice: str, aliases: Mapping[str, str]) -> str:
    """Replace the aliases in a voice or mixture. An alias of a mixture cannot be part of another mixture."""
    if voice in aliases:
        return aliases[voice]
    parts = []
    for name, weight in parts_of(voice):
        target = aliases.get(name, name)
        parts.append(f"{name if '+' in target else target}{weight}")
    return "+".join(parts)


def unknown_voice(name: str, voices: Collection[str], aliases: Collection[str]) -> str:
    """Return the error message for an unknown voice, which lists the model's voices and aliases."""
    also = f", or by alias: {', '.join(sorted(aliases))}" if aliases else ""
    return f"there is no voice {name[:100]!r}; choose one of: {', '.join(sorted(voices))}{also}"
