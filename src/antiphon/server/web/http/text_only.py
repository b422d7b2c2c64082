"""Images and files in the content of messages, which no model here reads: one error for all of their forms."""

from __future__ import annotations

from typing import Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

TEXT_ONLY = "this model reads text only"
ERROR_TYPE = "text_only"
#: Types of parts without text, in the APIs of OpenAI and Anthropic.
UNREADABLE = ("image", "image_url", "input_image", "image_file", "file", "input_file", "container_upload", "video_url")


def text_only_error() -> PydanticCustomError:
    return PydanticCustomError(ERROR_TYPE, TEXT_ONLY)


def _check(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") in UNREADABLE:
        raise text_only_error()
    return part


#: Validator for a part of a message's content.
ReadsText = BeforeValidator(_check)
