"""`BackgroundJob`: a transcription that runs without a client's connection."""

from __future__ import annotations

import asyncio
import time
import uuid
from enum import StrEnum
from typing import Any

from fastapi import Request, Response

from antiphon.runtime.calls.transcript import TranscriptProgress
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.server.generation.sound.partial_transcript import PartialTranscript, tell_progress
from antiphon.server.generation.sound.request_schemas import SoundForm
from antiphon.server.generation.sound.transcript_answers import answer_content, log_transcription
from antiphon.server.generation.sound.upload_transcription import UploadTranscription
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import unavailable


class Status(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BackgroundJob:
    """State of a transcription in the background, with its upload until it ends.

    `options` are validated. `duration` is the recording's seconds, None if its header does not contain them. `task` is
    the server's request to itself that runs the transcription, None while it waits.
    """

    def __init__(
        self,
        form: SoundForm,
        options: TranscriptionOptions,
        model: str,
        duration: float | None,
        owner: int | None,
        keep_alive: float | None = None,
    ) -> None:
        self.id = f"transcription_{uuid.uuid4().hex}"
        self.owner = owner
        self.status = Status.QUEUED
        self.task: asyncio.Task[None] | None = None
        self.error: dict[str, Any] | None = None
        self.created = time.time()
        self.expires_at: int | None = None
        self._form = form
        self._options = options
        self._model = model
        self._duration = duration
        self._keep_alive = keep_alive
        self._is_reading = False  # if so, the reader closes the upload
        self._started_at: int | None = None
        self._ended_at: int | None = None
        self._partial = PartialTranscript()
        self._result: str | dict[str, Any] | None = None

    @property
    def has_ended(self) -> bool:
        return self._ended_at is not None

    async def transcribe(self, request: Request) -> Response:
        """Transcribe the upload, as the handler of the server's request to itself."""
        context, serving = context_of(request), serving_of(request)
        context.keep_alive = self._keep_alive
        context.on_failure = tell_progress
        # A server that shuts down is not asked for the result any more.
        context.on_draining = lambda: context.end_with(unavailable("the server is shutting down", "shutting_down"))
        self.status, self._started_at = Status.IN_PROGRESS, int(time.time())
        model = await serving.models.ready(self._model, "transcribe")
        context.log_fields["model"] = model.name

        def take(update: TranscriptProgress) -> None:
            self._partial.take(update)
            context.note_progress()

        self._is_reading = True
        transcript = await UploadTranscription(serving, model, self._form.file, self._options).wait(take)
        log_transcription(context.log_fields, transcript.stats)
        self._duration = self._partial.seconds = transcript.duration
        self._result = answer_content(self._form, transcript, model.text.tokenizer)
        return json_response({"id": self.id})

    def end(self, status: Status, kept_seconds: float) -> None:
        """Enter a final state, which is kept for `kept_seconds`, and release the upload."""
        self.status, now = status, int(time.time())
        self._ended_at, self.expires_at = now, now + int(kept_seconds)
        if not self._is_reading:
            self._form.file.close()

    def drop_text(self, limit: int) -> None:
        """Fail because the transcript exceeds the `limit` of stored bytes."""
        self.status, self._result, self._partial = Status.FAILED, None, PartialTranscript()
        message = f"the transcript is larger than the {limit:,} bytes that the server keeps"
        self.error = {"code": "transcript_too_large", "message": message, "param": None}

    def body(self) -> dict[str, Any]:
        """Return the current state, with the text so far or the result."""
        is_completed = self.status is Status.COMPLETED
        return {
            **self.summary(),
            "partial": None if is_completed else self._partial.body(),
            "result": self._result if is_completed else None,
        }

    def summary(self) -> dict[str, Any]:
        """Return the current state without text, as in lists."""
        done, duration = self._partial.seconds, self._duration
        is_completed = self.status is Status.COMPLETED
        fraction = min(1.0, done / duration) if duration else None
        return {
            "id": self.id,
            "object": "audio.transcription",
            "status": str(self.status),
            "background": True,
            "task": "translate" if self._options.translate else "transcribe",
            "model": self._model,
            "response_format": self._form.response_format or "json",
            "created_at": int(self.created),
            "started_at": self._started_at,
            "completed_at": self._ended_at if is_completed else None,
            "ended_at": self._ended_at,
            "expires_at": self.expires_at,
            "progress": {
                "seconds": round(done, 3),
                "duration": None if duration is None else round(duration, 3),
                "fraction": 1.0 if is_completed else None if fraction is None else round(fraction, 4),
            },
            "error": self.error,
        }
