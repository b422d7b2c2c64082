"""Schemas of message batches, and their conversion from stored batches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from antiphon.server.serving.model_card import rfc3339
from antiphon.server.stored.batches.record import BatchRecord
from antiphon.server.web.http.schemas import AnswerBody, Body, Count

#: Prefix that makes the id of a message batch from that of the batch that runs its requests.
PREFIX = "msg"


class BatchedMessage(Body):
    custom_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    #: Body of `/v1/messages`, validated when the request runs.
    params: dict[str, Any]


class MessageBatchBody(Body):
    """A message batch. The server reads the body one request at a time; this schema documents it."""

    requests: Annotated[list[BatchedMessage], Field(min_length=1)]


class MessageCounts(AnswerBody):
    """Numbers of requests by state; all are processing until the batch has ended."""

    processing: Count
    succeeded: Count
    errored: Count
    canceled: Count
    expired: Count


class MessageBatchAnswer(AnswerBody):
    id: str
    type: Literal["message_batch"]
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: MessageCounts
    created_at: str
    expires_at: str
    ended_at: str | None
    cancel_initiated_at: str | None
    archived_at: str | None
    results_url: str | None


class MessageBatchesAnswer(AnswerBody):
    data: list[MessageBatchAnswer]
    has_more: bool
    first_id: str | None
    last_id: str | None


class DeletedMessageBatchAnswer(AnswerBody):
    id: str
    type: Literal["message_batch_deleted"]


def message_batch(record: BatchRecord, results_url: str | None) -> dict[str, Any]:
    """Return the answer for a batch; `results_url` is included once the batch has ended."""
    ended = record.completed_at or record.failed_at or record.expired_at or record.cancelled_at
    is_canceling = record.status == "cancelling" or record.ending == "cancelled"
    status = "ended" if record.has_ended else "canceling" if is_canceling else "in_progress"
    return {
        "id": PREFIX + record.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": _counts(record),
        "created_at": rfc3339(record.created_at),
        "expires_at": rfc3339(record.expires_at),
        "ended_at": None if ended is None else rfc3339(ended),
        "cancel_initiated_at": None if record.cancelling_at is None else rfc3339(record.cancelling_at),
        "archived_at": None,
        "results_url": results_url if record.has_ended else None,
    }


def _counts(record: BatchRecord) -> dict[str, int]:
    found = dict.fromkeys(MessageCounts.model_fields, 0)
    counts = record.counts
    if not record.has_ended:
        return {**found, "processing": counts.total}
    rest = counts.total - counts.completed - counts.failed
    found |= {
        "succeeded": counts.completed,
        "errored": counts.failed - record.num_expired,
        "expired": record.num_expired,
    }
    found["errored" if record.status == "failed" else "canceled"] += rest
    return found
