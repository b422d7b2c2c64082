"""What all schemas share: base classes of request and response bodies, common fields, and the body of an error.

Class names and docstrings are part of the OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from antiphon.runtime.residency.keep_alive import PATTERN as KEEP_ALIVE_PATTERN

Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=512)]
#: 0 is critical, 1 high, 2 normal.
Priority = Annotated[int, Field(ge=0, le=2)]
#: Seconds, or a duration such as `5m`; -1 means for ever.
KeepAlive = Annotated[float, Field(ge=-1, le=1e9)] | Annotated[str, Field(pattern=KEEP_ALIVE_PATTERN)]


class Body(BaseModel):
    """Strict: a number in quotes is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ModelBody(Body):
    model: Name
    #: How long the model stays resident after this request.
    keep_alive: KeepAlive | None = None
    #: Accepted without effect.
    user: str | None = None


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorDetail(Answer):
    message: str
    type: str
    param: str | None
    code: str


class ErrorAnswer(Answer):
    error: ErrorDetail


class AnthropicErrorDetail(Answer):
    type: str
    message: str


class AnthropicErrorAnswer(Answer):
    type: Literal["error"]
    error: AnthropicErrorDetail
    request_id: str


class OllamaErrorAnswer(Answer):
    error: str
