"""Every parameter that openai-python can send is known: supported, accepted as a hint, or rejected with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.audio.speech_create_params import SpeechCreateParams
from openai.types.audio.transcription_create_params import TranscriptionCreateParamsBase
from openai.types.audio.translation_create_params import TranslationCreateParams
from openai.types.chat import chat_completion_assistant_message_param as assistant
from openai.types.chat.chat_completion_stream_options_param import ChatCompletionStreamOptionsParam
from openai.types.chat.completion_create_params import CompletionCreateParamsBase as ChatParams
from openai.types.completion_create_params import CompletionCreateParamsBase
from openai.types.embedding_create_params import EmbeddingCreateParams
from openai.types.responses.response_create_params import ResponseCreateParamsBase, StreamOptions
from openai.types.shared_params.reasoning import Reasoning
from pydantic import BaseModel

from antiphon.server.apis.responses.request_schemas import ReasoningOptions, ResponseBody, ResponseStreamOptions
from antiphon.server.generation.parameters import request_schemas
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import AssistantMessage
from antiphon.server.generation.sound.request_schemas import SpeechBody, TranscriptionForm, TranslationForm

PARAMETERS: list[tuple[Any, type[BaseModel]]] = [
    (ChatParams, ChatBody),
    (ChatCompletionStreamOptionsParam, request_schemas.StreamOptions),
    (assistant.ChatCompletionAssistantMessageParam, AssistantMessage),
    (CompletionCreateParamsBase, request_schemas.CompletionBody),
    (EmbeddingCreateParams, request_schemas.EmbeddingBody),
    (ResponseCreateParamsBase, ResponseBody),
    (StreamOptions, ResponseStreamOptions),
    (Reasoning, ReasoningOptions),
    (TranscriptionCreateParamsBase, TranscriptionForm),
    (TranslationCreateParams, TranslationForm),
    (SpeechCreateParams, SpeechBody),
]


@pytest.mark.parametrize(("params", "schema"), PARAMETERS, ids=[schema.__name__ for _, schema in PARAMETERS])
def test_every_parameter_is_classified(params: Any, schema: type[BaseModel]) -> None:
    rejected = getattr(schema, "unsupported", {})
    unknown = params.__annotations__.keys() - schema.model_fields.keys() - rejected.keys()
    assert not unknown
