"""Names of models in a realtime session: the server's own, and OpenAI's, which mean the server's default models."""

from __future__ import annotations

import re
from dataclasses import replace

from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.server.apis.realtime.wire_errors import WireError
from antiphon.server.serving.model_card import task_of
from antiphon.server.serving.model_names import untagged
from antiphon.server.serving.models import ServedModels
from antiphon.server.web.http.errors import ApiError
from antiphon.weights.catalog.model_tasks import KINDS

CHAT = re.compile(r"gpt-(realtime|audio|4o(-mini)?-realtime|4o(-mini)?-audio)([.-].*)?")
TRANSCRIPTION = re.compile(r"whisper-1|gpt-.*(transcribe|whisper).*")
DEFAULTS = {"generate": "default-chat", "transcribe": "default-transcription", "synthesize": "default-speech"}


def served_name(models: ServedModels, name: str | None, task: str) -> str | None:
    """Replace OpenAI's name of a model by that of the task's default model, unless a model or alias here has it."""
    pattern = {"generate": CHAT, "transcribe": TRANSCRIPTION}.get(task)
    if name is None or pattern is None or pattern.fullmatch(untagged(name)) is None or models.named(name) is not None:
        return name
    return DEFAULTS[task]


def with_served_names(models: ServedModels, settings: VoiceSettings) -> VoiceSettings:
    """Return the settings with the transcription model's own name: choosing another alias then changes nothing."""
    asked = served_name(models, settings.transcription_model, "transcribe") or DEFAULTS["transcribe"]
    try:
        return replace(settings, transcription_model=models.known(asked).name)
    except ApiError:  # unknown model: hearing reports the error
        return settings


def check_model(models: ServedModels, name: str | None, task: str, param: str) -> None:
    """Raise `WireError` for a given name that no served or loadable model for this task has."""
    asked = served_name(models, name, task)
    if asked is None:
        return
    try:
        model = models.known(asked)
    except ApiError as error:
        if name != asked:
            message = f"{name!r} leads to the default model for its task, and this server has none; name one"
            raise WireError(message, param, "model_not_found") from error
        raise WireError.of(error, param) from error
    own = task_of(model)
    if own is not None and own != task:
        message = f"model {model.name!r} is {KINDS.get(own, own)}; {param} needs {KINDS[task]}"
        raise WireError(message, param, "unsupported_model")
