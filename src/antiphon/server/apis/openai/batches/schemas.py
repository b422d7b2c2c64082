"""Schemas of a new batch, and of answers about batches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon.server.apis.openai.files.schemas import ExpiresAfter
from antiphon.server.stored.batches.record import Endpoint
from antiphon.server.web.http.schemas import AnswerBody, Body, Count, Metadata


class BatchBody(Body):
    """A new batch, whose input file has one request per line, all for the same endpoint."""

    input_file_id: Annotated[str, Field(max_length=512)]
    endpoint: Endpoint
    completion_window: Literal["24h"]
    metadata: Metadata | None = None
    output_expires_after: ExpiresAfter | None = None


class AnswerBatchError(AnswerBody):
    code: str
    message: str
    param: str | None
    line: int | None


class AnswerBatchErrors(AnswerBody):
    object: Literal["list"]
    data: list[AnswerBatchError]


class AnswerCounts(AnswerBody):
    total: Count
    completed: Count
    failed: Count


class BatchInputDetails(AnswerBody):
    cached_tokens: Count


class BatchOutputDetails(AnswerBody):
    reasoning_tokens: Count


class BatchUsage(AnswerBody):
    input_tokens: Count
    input_tokens_details: BatchInputDetails
    output_tokens: Count
    output_tokens_details: BatchOutputDetails
    total_tokens: Count


class BatchAnswer(AnswerBody):
    id: str
    object: Literal["batch"]
    endpoint: str
    model: str | None
    errors: AnswerBatchErrors | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    expires_at: int
    in_progress_at: int | None
    finalizing_at: int | None
    cancelling_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelled_at: int | None
    request_counts: AnswerCounts
    usage: BatchUsage | None
    metadata: dict[str, str] | None


class BatchesAnswer(AnswerBody):
    object: Literal["list"]
    data: list[BatchAnswer]
    first_id: str
    last_id: str
    has_more: bool
