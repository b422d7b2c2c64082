"""Routes that read, list, cancel and delete transcriptions in the background."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.openai.audio.background import transcriptions_of
from antiphon.server.apis.openai.audio.background_job import BackgroundJob, Status
from antiphon.server.apis.openai.audio.response_schemas import (
    BackgroundTranscriptionAnswer,
    DeletedTranscription,
    TranscriptionsAnswer,
)
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.paging import After, Limit, Order, page

router = APIRouter()


def _find(request: Request, transcription_id: str) -> BackgroundJob:
    return transcriptions_of(request).find(transcription_id, context_of(request).key)


@router.get("/v1/audio/transcriptions")
@described(answer=TranscriptionsAnswer)
async def list_transcriptions(
    request: Request, after: After = None, limit: Limit = 20, order: Order = "desc"
) -> Response:
    """List the transcriptions of the caller's key, without their texts."""
    found = transcriptions_of(request).of_owner(context_of(request).key)
    return json_response(page([job.summary() for job in found], after, limit, order))


@router.get("/v1/audio/transcriptions/{transcription_id}")
@described(answer=BackgroundTranscriptionAnswer)
async def get_transcription(request: Request, transcription_id: str) -> Response:
    """Return status, progress and the text so far, or the result once the transcription is completed."""
    return json_response(_find(request, transcription_id).body())


@router.post("/v1/audio/transcriptions/{transcription_id}/cancel")
@described(answer=BackgroundTranscriptionAnswer)
async def cancel_transcription(request: Request, transcription_id: str) -> Response:
    """Cancel a waiting or running transcription; its text so far is kept. Cancelling twice changes nothing."""
    job = _find(request, transcription_id)
    if job.has_ended and job.status is not Status.CANCELLED:
        message = f"the transcription has ended with status {job.status}"
        raise ApiError(400, message, code="transcription_ended", param="transcription_id")
    transcriptions_of(request).cancel(job)
    return json_response(job.body())


@router.delete("/v1/audio/transcriptions/{transcription_id}")
@described(answer=DeletedTranscription)
async def delete_transcription(request: Request, transcription_id: str) -> Response:
    """Delete the transcription; one that waits or runs is cancelled."""
    transcriptions_of(request).remove(_find(request, transcription_id))
    return json_response({"id": transcription_id, "object": "audio.transcription", "deleted": True})
