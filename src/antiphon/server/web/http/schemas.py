"""Shared parts of all schemas: base classes of request and response bodies, common fields, and the body of an error.

Class names and docstrings are part of the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from antiphon.runtime.residency.keep_alive import PATTERN as KEEP_ALIVE_PATTERN

Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=512)]
#: Priority: 0 is critical, 1 high, 2 normal, 3 low.
Priority = Annotated[int, Field(ge=0, le=3)]
#: Seconds, or a duration such as `5m`; -1 means for ever.
KeepAlive = Annotated[float, Field(ge=-1, le=1e9)] | Annotated[str, Field(pattern=KEEP_ALIVE_PATTERN)]


#: Limits as in OpenAI's API.
Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]


class Unsupported(NamedTuple):
    """Reason for rejecting a field of another server, and further values that ask for nothing.

    With `asks_when_empty`, an empty object asks for something too.
    """

    reason: str
    neutral: tuple[Any, ...] = ()
    asks_when_empty: bool = False

    def asks_for_something(self, value: Any) -> bool:
        if self.asks_when_empty and value == {}:
            return True
        return bool(value) and value not in self.neutral


class Body(BaseModel):
    """Request body. Types are strict: a number in quotes is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    #: Fields that are not ignored like other unknown ones, since the answer would mean something else without them.
    unsupported: ClassVar[Mapping[str, Unsupported]] = {}
    #: Largest values that a strict server accepts; other servers allow more.
    strict_maxima: ClassVar[Mapping[str, float]] = {}


class MetadataBody(Body):
    """New metadata, which replaces an object's old metadata."""

    metadata: Metadata | None


class ModelBody(Body):
    #: May be omitted if exactly one model fits.
    model: Name | None = None
    #: Time that the model stays loaded after this request.
    keep_alive: KeepAlive | None = None
    #: Accepted without effect.
    user: str | None = None


class AnswerBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorDetail(AnswerBody):
    message: str
    type: str
    param: str | None
    code: str


class ErrorAnswer(AnswerBody):
    error: ErrorDetail


class AnthropicErrorDetail(AnswerBody):
    type: str
    message: str


class AnthropicErrorAnswer(AnswerBody):
    type: Literal["error"]
    error: AnthropicErrorDetail
    request_id: str


class OllamaErrorAnswer(AnswerBody):
    error: str
