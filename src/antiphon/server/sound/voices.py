"""Voices by name and alias, and `GET /v1/audio/voices`."""

from __future__ import annotations

from fastapi import APIRouter, Query, Request, Response

from antiphon.runtime.voices.aliases import aliases_for, parts_of, unknown_voice, without_aliases
from antiphon.server.http.connection import json_response
from antiphon.server.http.errors import invalid
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.sound.request_schemas import VoiceReference

router = APIRouter()


def voice_aliases(serving: Serving, model: ReadyModel) -> dict[str, str]:
    """The aliases of a model's voices, and the voices they stand for."""
    names = [known.name for known in model.loaded.voices]
    return aliases_for(names, model.loaded.default_voice or names[0], serving.config.voice_aliases)


def resolve_voice(serving: Serving, model: ReadyModel, asked: str | VoiceReference | None, param: str) -> str | None:
    """The requested voice with aliases resolved; an unknown name is an error that lists the known voices.

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


@router.get("/v1/audio/voices")
async def voices(request: Request, model: str = Query("default-speech", min_length=1, max_length=512)) -> Response:
    """The voices of a model, loaded if need be: first its own, then the aliases, each with what it leads to."""
    serving = serving_of(request)
    ready = await serving.models.ready(model, "synthesize")
    aliases = voice_aliases(serving, ready)
    voices = {voice.name: voice for voice in ready.loaded.voices}
    data = []
    for name, same_as in [*((name, None) for name in voices), *aliases.items()]:
        voice = voices[parts_of(same_as or name)[0][0]]
        data.append(
            {
                "id": name,
                "object": "voice",
                "name": name,
                "language": voice.language,
                "gender": voice.gender,
                "aliases": sorted(alias for alias, target in aliases.items() if target == name),
                "same_as": same_as,
            }
        )
    content = {"object": "list", "model": ready.name, "default": ready.loaded.default_voice, "data": data}
    return json_response(content)
