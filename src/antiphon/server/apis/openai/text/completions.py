"""`POST /v1/completions`: continues one or several prompts without a chat template."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.openai.text.completion_format import CompletionFormat
from antiphon.server.generation.parameters.request_schemas import CompletionBody
from antiphon.server.generation.text.completion_call import prepare_completion
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.response_schemas import CompletionAnswer
from antiphon.server.generation.text.wire_format import respond
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.post("/v1/completions")
@described(body=CompletionBody, answer=CompletionAnswer, can_stream=True)
async def completions(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, CompletionBody, serving.config.limits.body_bytes)
    completion = await prepare_completion(serving, body)
    context_of(request).log_fields["model"] = completion.model.name
    generations = Generations(serving, completion.calls, counts_output=not completion.wants_no_output)
    return await respond(request, generations, CompletionFormat(completion), body.stream)
