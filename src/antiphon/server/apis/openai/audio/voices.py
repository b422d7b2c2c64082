"""`GET /v1/audio/voices`."""

from __future__ import annotations

from fastapi import APIRouter, Query, Request, Response

from antiphon.runtime.voices.aliases import parts_of
from antiphon.server.apis.openai.audio.response_schemas import VoicesAnswer
from antiphon.server.generation.sound.voices import voice_aliases
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.get("/v1/audio/voices")
@described(answer=VoicesAnswer)
async def voices(request: Request, model: str = Query("default-speech", min_length=1, max_length=512)) -> Response:
    """List the voices of a model and then the aliases with their targets, loading the model if necessary."""
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
