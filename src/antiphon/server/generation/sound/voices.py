"""Voices by name and alias."""

from __future__ import annotations

from antiphon.runtime.voices.aliases import aliases_for, parts_of, unknown_voice, without_aliases
from antiphon.server.generation.sound.request_schemas import VoiceReference
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import invalid


def voice_aliases(serving: Serving, model: ReadyModel) -> dict[str, str]:
    """Return the voices of a model by alias."""
    names = [known.name for known in model.loaded.voices]
    return aliases_for(names, model.loaded.default_voice or names[0], serving.config.voice_aliases)


def resolve_voice(serving: Serving, model: ReadyModel, asked: str | VoiceReference | None, param: str) -> str | None:
    """Return the requested voice with aliases resolved. Raise an error that lists the voices for an unknown name.

    The engine checks the syntax of a mixture.
    """
    if asked is None:
        return None
    aliases = voice_aliases(serving, model)
    voice = without_aliases(asked if isinstance(asked, str) else asked.id, aliases)
    names = [known.name for known in model.loaded.voices]
    for name, _ in parts_of(voice):
        if name not in names:
            raise invalid(f"model {model.name!r}: {unknown_voice(name, names, aliases)}", param)
    return voice
