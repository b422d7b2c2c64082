"""Schemas of an upload's form, and of answers about files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from antiphon.server.web.http.schemas import AnswerBody, Body, Count

Upload = Annotated[Any, WithJsonSchema({"type": "string", "format": "binary"})]
ExpirySeconds = Annotated[int, Field(ge=3600, le=30 * 24 * 3600)]


class ExpiresAfter(Body):
    """Seconds from a file's creation to its deletion."""

    anchor: Literal["created_at"]
    seconds: ExpirySeconds


class FormExpiresAfter(BaseModel):
    """`ExpiresAfter` in a form, where numbers are written as text."""

    model_config = ConfigDict(extra="forbid")

    anchor: Literal["created_at"]
    seconds: ExpirySeconds


class FileForm(BaseModel):
    """A file and its purpose."""

    model_config = ConfigDict(extra="forbid")

    file: Upload
    purpose: Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
    expires_after: FormExpiresAfter | None = None


class FileAnswer(AnswerBody):
    id: str
    object: Literal["file"]
    bytes: Count
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"]
    status_details: None


class FilesAnswer(AnswerBody):
    object: Literal["list"]
    data: list[FileAnswer]
    first_id: str
    last_id: str
    has_more: bool


class FileDeletedAnswer(AnswerBody):
    id: str
    object: Literal["file"]
    deleted: bool
