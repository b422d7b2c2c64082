"""The `info` event: the models and voices of a server."""

from __future__ import annotations

from typing import Any

from antiphon import __version__
from antiphon.server.apis.wyoming.frames import Frame
from antiphon.server.apis.wyoming.offers import OfferedModel, Offers, language_tag

#: Programs of transcription: text after the sound has ended, and text while it arrives.
PROGRAM, LIVE_PROGRAM = "antiphon", "antiphon-live"
PROGRAMS = (PROGRAM, LIVE_PROGRAM)
TITLES = {PROGRAM: "Antiphon", LIVE_PROGRAM: "Antiphon, with text while you speak"}


def info_event(offers: Offers) -> Frame:
    """Build the event; kinds of service that the server lacks are empty lists, because clients expect all of them."""
    asr: list[dict[str, Any]] = []
    if offers.recognisers:
        models = [_model(model) | {"languages": list(model.languages)} for model in offers.recognisers]
        for name in PROGRAMS:
            asr.append(_program(name) | {"models": models, "supports_transcript_streaming": True})
    tts: list[dict[str, Any]] = []
    if offers.voices:
        voices = [
            _model(voice.model)
            | {"name": voice.name, "description": f"{voice.name} ({voice.model.title})"}
            | {"languages": [language_tag(voice.language)], "speakers": None}
            for voice in offers.voices
        ]
        tts.append(_program(PROGRAM) | {"voices": voices, "supports_synthesize_streaming": True})
    rest: dict[str, list[Any]] = {name: [] for name in ("handle", "intent", "wake", "mic", "snd")}
    return Frame("info", {"asr": asr, "tts": tts, **rest})


def _program(name: str) -> dict[str, Any]:
    attribution = {"name": "Antiphon", "url": ""}
    description = TITLES[name]
    return {
        "name": name,
        "attribution": attribution,
        "installed": True,
        "description": description,
        "version": __version__,
    }


def _model(model: OfferedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "attribution": {"name": model.author, "url": ""},
        "installed": model.is_installed,
        "description": model.title,
        "version": None,
    }
