"""`/v1/messages/batches`: Anthropic's message batches, run as batches of `/v1/messages`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from antiphon.server.apis.anthropic.batches.results import results
from antiphon.server.apis.anthropic.batches.schemas import (
    PREFIX,
    DeletedMessageBatchAnswer,
    MessageBatchAnswer,
    MessageBatchBody,
    MessageBatchesAnswer,
    message_batch,
)
from antiphon.server.apis.anthropic.batches.upload import store_requests
from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.batches.queue import BatchQueue, queue_of
from antiphon.server.stored.batches.record import MESSAGES, BatchRecord
from antiphon.server.stored.files.access import files_of, owner_of
from antiphon.server.stored.files.record import BATCH_FILE_SECONDS
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.paging import page_between

router = APIRouter()
BATCH = "/v1/messages/batches/{message_batch_id}"
Id = Annotated[str | None, Query(max_length=512)]


@router.post("/v1/messages/batches")
@described(body=MessageBatchBody, answer=MessageBatchAnswer)
async def create_message_batch(request: Request) -> Response:
    files, queue, owner = files_of(request), queue_of(request), owner_of(request)
    stored, num_requests = await store_requests(request, files, owner, serving_of(request).config.limits)
    record = BatchRecord.new(owner=owner, endpoint=MESSAGES, input_file_id=stored.id, output_seconds=BATCH_FILE_SECONDS)
    record.counts.total = num_requests
    answer = _answer(request, record)
    try:
        await queue.submit(record)
    except BaseException:
        await files.remove(stored)
        raise
    return answer


@router.get("/v1/messages/batches")
@described(answer=MessageBatchesAnswer)
async def list_message_batches(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    after_id: Id = None,
    before_id: Id = None,
) -> Response:
    """List the message batches of the caller's key, newest first."""
    queue = queue_of(request)
    records = queue.store.of_owner(owner_of(request), MESSAGES)[::-1]
    shown = [_shown(request, queue.shown(record)) for record in records]
    return json_response(page_between(shown, after_id, before_id, limit, "message batch"))


@router.get(BATCH)
@described(answer=MessageBatchAnswer)
async def get_message_batch(request: Request, message_batch_id: str) -> Response:
    queue = queue_of(request)
    return _answer(request, queue.shown(_find(request, queue, message_batch_id)))


@router.post(BATCH + "/cancel")
@described(answer=MessageBatchAnswer)
async def cancel_message_batch(request: Request, message_batch_id: str) -> Response:
    """Cancel the requests that have not ended; results so far are kept."""
    queue = queue_of(request)
    record = _find(request, queue, message_batch_id)
    if record.has_ended:
        raise ApiError(409, f"message batch {message_batch_id} has ended", code="batch_ended", param="message_batch_id")
    return _answer(request, await queue.cancel(record))


@router.delete(BATCH)
@described(answer=DeletedMessageBatchAnswer)
async def delete_message_batch(request: Request, message_batch_id: str) -> Response:
    """Delete a message batch that has ended, with its requests and results."""
    queue, files = queue_of(request), files_of(request)
    record = _find(request, queue, message_batch_id)
    if not record.has_ended:
        message = f"message batch {message_batch_id} has not ended: cancel it first"
        raise ApiError(409, message, code="batch_not_ended", param="message_batch_id")
    await queue.store.remove(record)
    for file_id in (record.input_file_id, record.output_file_id, record.error_file_id):
        if file_id is not None and files.has(file_id):
            await files.remove(files.find(file_id, record.owner))
    return json_response({"id": message_batch_id, "type": "message_batch_deleted"})


@router.get(BATCH + "/results")
@described(other_types=("application/x-jsonl",))
async def message_batch_results(request: Request, message_batch_id: str) -> Response:
    """Return a line of JSON for each request, in no particular order."""
    queue, files = queue_of(request), files_of(request)
    record = _find(request, queue, message_batch_id)
    if not record.has_ended:
        message = f"message batch {message_batch_id} has not ended; its results are available afterwards"
        raise ApiError(404, message, code="batch_not_ended", param="message_batch_id")
    for file_id in (record.input_file_id, record.output_file_id, record.error_file_id):
        if file_id is not None:
            files.find(file_id, record.owner)
    lines = results(record, files, serving_of(request).config.limits.body_bytes)
    return StreamingResponse(lines, media_type="application/x-jsonl", headers={"x-content-type-options": "nosniff"})


def _find(request: Request, queue: BatchQueue, message_batch_id: str) -> BatchRecord:
    is_own = message_batch_id.startswith(PREFIX)
    return queue.store.find(message_batch_id.removeprefix(PREFIX) if is_own else "", owner_of(request), MESSAGES)


def _answer(request: Request, record: BatchRecord) -> Response:
    return json_response(_shown(request, record))


def _shown(request: Request, record: BatchRecord) -> dict[str, Any]:
    path = BATCH.format(message_batch_id=PREFIX + record.id)
    return message_batch(record, f"{str(request.base_url).rstrip('/')}{path}/results")
