"""`GET /api/tags`, `/api/ps` and `/api/version`, and `POST /api/show`: information about models and the server."""

from __future__ import annotations

import hashlib
import time
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon import __version__
from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.server.apis.ollama.answers import read_ollama
from antiphon.server.apis.ollama.request_schemas import OllamaShowBody
from antiphon.server.apis.ollama.response_schemas import (
    OllamaProcessesAnswer,
    OllamaShowAnswer,
    OllamaTagsAnswer,
    OllamaVersionAnswer,
)
from antiphon.server.serving.model_card import rfc3339, task_of
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import ApiError, invalid
from antiphon.server.web.http.openapi import described
from antiphon.text.reasoning import can_reason
from antiphon.text.tool_calls.forms import tool_form

router = APIRouter()
TASKS = (None, "generate", "embed")
FORMATS = {"hf": "safetensors"}
#: Seconds until `expires_at` of a model that is never unloaded: Ollama reports a date far ahead.
FOREVER_SECONDS = 100 * 365.25 * 86400


@router.get("/api/version")
@described(answer=OllamaVersionAnswer)
async def version() -> Response:
    return json_response({"version": __version__})


@router.get("/api/tags")
@described(answer=OllamaTagsAnswer)
async def tags(request: Request) -> Response:
    """List the models that generate text or embed it, under each of their names."""
    names = serving_of(request).models.names()
    listed = [(name, model) for name, model in names.items() if task_of(model) in TASKS]
    return json_response(
        {"models": [_card(model, name) | {"modified_at": rfc3339(model.created)} for name, model in listed]}
    )


@router.get("/api/ps")
@described(answer=OllamaProcessesAnswer)
async def running(request: Request) -> Response:
    """List the loaded models."""
    cards = []
    for model in serving_of(request).models:
        if model.state is ModelState.READY and model.loaded is not None and task_of(model) in TASKS:
            expires = model.expires if model.expires is not None else time.time() + FOREVER_SECONDS
            more = {"expires_at": rfc3339(expires), "size_vram": 0, "context_length": model.loaded.max_tokens}
            cards.append(_card(model, model.name) | more)
    return json_response({"models": cards})


@router.post("/api/show")
@described(body=OllamaShowBody, answer=OllamaShowAnswer)
async def show(request: Request) -> Response:
    """Describe a model: completely only after it has been loaded once."""
    serving = serving_of(request)
    body = await read_ollama(request, OllamaShowBody)
    name = asked_name(body)
    model = serving.models.find(name)
    template = model.text.chat_template.source if model.text is not None and model.text.chat_template else ""
    return json_response(
        {
            "modelfile": f"FROM {model.name}\n",
            "parameters": _parameters(model),
            "template": template,
            "details": _details(model),
            "model_info": _model_info(model),
            "capabilities": _capabilities(model),
            "modified_at": rfc3339(model.created),
        }
    )


def asked_name(body: OllamaShowBody) -> str:
    name = body.model or body.name
    if name is None:
        raise invalid("model is missing", "model", "missing_required_parameter")
    return name


def _card(model: Resident, name: str) -> dict[str, Any]:
    """Return the fields shared by all listings; the digest identifies the reference that the model is loaded from."""
    digest = hashlib.sha256(model.reference.encode()).hexdigest()
    size = 0 if model.loaded is None else model.loaded.weight_bytes
    return {"name": name, "model": name, "size": size, "digest": digest, "details": _details(model)}


def _details(model: Resident) -> dict[str, Any]:
    facts = None if model.text is None else model.text.facts
    family = "" if facts is None else facts.architecture
    return {
        "parent_model": "",
        "format": "" if facts is None else FORMATS.get(facts.format, facts.format),
        "family": family,
        "families": [family] if family else [],
        "parameter_size": "" if facts is None else _size(facts.num_parameters),
        "quantization_level": "" if facts is None else facts.tensor_type,
    }


def _size(count: int) -> str:
    """Format a number of parameters: 134.5M, 1.1B."""
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.1f}M"


def _parameters(model: Resident) -> str:
    """Return the model's sampling defaults, one per line."""
    settings = {} if model.text is None else model.text.sampling.settings
    return "\n".join(f"{name:<30} {value}" for name, value in settings.items())


def _model_info(model: Resident) -> dict[str, Any]:
    if model.text is None or model.loaded is None:
        return {}
    facts = model.text.facts
    return {
        "general.architecture": facts.architecture,
        "general.basename": model.name,
        "general.parameter_count": facts.num_parameters,
        f"{facts.architecture}.context_length": model.loaded.max_tokens,
        f"{facts.architecture}.vocab_size": model.text.tokenizer.vocab_size,
    }


def _capabilities(model: Resident) -> list[str]:
    task = task_of(model)
    if task == "embed":
        return ["embedding"]
    found = ["completion"] if task == "generate" else []
    template = None if model.text is None else model.text.chat_template
    if template is not None:
        found += ["tools"] if tool_form(template) is not None else []
        found += ["thinking"] if can_reason(template) else []
    return found


# Only the administrator may create, change or remove models.
@router.post("/api/create", include_in_schema=False)
@router.post("/api/copy", include_in_schema=False)
@router.post("/api/push", include_in_schema=False)
@router.delete("/api/delete", include_in_schema=False)
async def not_implemented(request: Request) -> Response:
    message = f"{request.url.path} is not implemented: models are managed by `antiphon models` and /admin/models"
    raise ApiError(501, message, code="not_implemented", kind="server_error")
