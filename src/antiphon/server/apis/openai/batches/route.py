"""`/v1/batches`: requests from a file, run when nothing more urgent waits."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.openai.batches.schemas import BatchAnswer, BatchBody, BatchesAnswer
from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.batches.queue import queue_of
from antiphon.server.stored.batches.record import BatchRecord
from antiphon.server.stored.files.access import files_of, owner_of
from antiphon.server.stored.files.record import BATCH_FILE_SECONDS
from antiphon.server.stored.files.store import quota_error
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import ApiError, invalid
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.paging import After, Limit, page

router = APIRouter()


@router.post("/v1/batches")
@described(body=BatchBody, answer=BatchAnswer)
async def create_batch(request: Request) -> Response:
    files, queue, owner = files_of(request), queue_of(request), owner_of(request)
    body = await read_body(request, BatchBody, serving_of(request).config.limits.body_bytes)
    found = files.find(body.input_file_id, owner, "input_file_id")
    if found.purpose != "batch":
        message = f"file {found.id} has the purpose {found.purpose}; the input of a batch needs the purpose batch"
        raise invalid(message, "input_file_id")
    if files.room(owner) <= 0:
        raise quota_error("the stored files of this key reached their limit: delete some")
    expires = body.output_expires_after
    record = BatchRecord.new(
        owner=owner,
        endpoint=body.endpoint,
        input_file_id=found.id,
        metadata=body.metadata,
        output_seconds=BATCH_FILE_SECONDS if expires is None else expires.seconds,
    )
    answer = json_response(record.body())
    await queue.submit(record)
    return answer


@router.get("/v1/batches")
@described(answer=BatchesAnswer)
async def list_batches(request: Request, after: After = None, limit: Limit = 20) -> Response:
    """List the batches of the caller's key, newest first."""
    queue = queue_of(request)
    records = queue.store.of_owner(owner_of(request))
    return json_response(page([queue.shown(record).body() for record in records], after, limit, "desc"))


@router.get("/v1/batches/{batch_id}")
@described(answer=BatchAnswer)
async def get_batch(request: Request, batch_id: str) -> Response:
    queue = queue_of(request)
    return json_response(queue.shown(queue.store.find(batch_id, owner_of(request))).body())


@router.post("/v1/batches/{batch_id}/cancel")
@described(answer=BatchAnswer)
async def cancel_batch(request: Request, batch_id: str) -> Response:
    queue = queue_of(request)
    record = queue.store.find(batch_id, owner_of(request))
    if record.has_ended and record.status != "cancelled":
        raise ApiError(409, f"the batch has ended with status {record.status}", code="batch_ended", param="batch_id")
    return json_response((await queue.cancel(record)).body())
