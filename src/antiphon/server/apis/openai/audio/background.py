"""Queue and results of transcriptions with `background: true`."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import IO

import orjson
from fastapi import FastAPI, Request, Response

from antiphon.counted import counted
from antiphon.errors import AudioError
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.language import language_of
from antiphon.server.apis.openai.audio.background_job import BackgroundJob, Status
from antiphon.server.generation.sound.request_schemas import SoundForm
from antiphon.server.generation.sound.upload_transcription import open_upload
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.serving.setup.config import Limits
from antiphon.server.stored.bounded_store import BoundedStore
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import ApiError, invalid
from antiphon.server.web.middleware.admission import too_many
from antiphon.server.web.middleware.internal_call import CALLER, Caller, call
from antiphon.server.web.telemetry.logs import log_failure
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer

PATH = "/v1/audio/transcriptions"
MAX_ID_SHOWN = 100


class BackgroundTranscriptions:
    """Transcriptions that wait, run, or have ended and not expired yet. For one event loop.

    The key with the fewest running transcriptions is served next. A transcription is only found with its own key.
    """

    def __init__(self, app: FastAPI, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._open: dict[str, BackgroundJob] = {}  # oldest first
        self._ended: BoundedStore[BackgroundJob] = BoundedStore(limits.stored_responses, limits.stored_bytes)
        self._tasks: dict[asyncio.Task[None], BackgroundJob] = {}
        self._is_closed = False

    def check_room(self, owner: int | None) -> None:
        """Raise `ApiError` if the key has reached its limit of unfinished transcriptions, or no results are kept."""
        limits = self._limits
        if not limits.stored_responses or not limits.stored_bytes:
            message = "this server keeps no results, which background needs; raise --max-responses, --responses-memory"
            raise invalid(message, "background", "unsupported_value")
        count = sum(job.owner == owner for job in self._open.values())
        if count >= limits.background:
            message = f"{counted(count, 'transcription')} in the background; at most {limits.background} wait or run"
            raise too_many(message, "too_many_transcriptions")

    def start(self, job: BackgroundJob) -> None:
        """Queue the transcription; it runs when its turn comes."""
        self._open[job.id] = job
        self._start_next()

    def _start_next(self) -> None:
        """Start waiting transcriptions up to the limit; a cancelled one counts until its request has ended."""
        while not self._is_closed and len(self._tasks) < self._limits.background_concurrency:
            waiting = [job for job in self._open.values() if job.task is None]
            if not waiting:
                return
            running = Counter(job.owner for job in self._tasks.values())
            job = min(waiting, key=lambda job: running[job.owner])  # the oldest of several
            job.task = asyncio.create_task(self._run(job))
            self._tasks[job.task] = job
            job.task.add_done_callback(self._note_end)

    async def _run(self, job: BackgroundJob) -> None:
        answer = await call(self._app, PATH, b"{}", Caller(job.owner, background_id=job.id))
        if answer.status < 400:
            self._end(job, Status.COMPLETED)
            return
        error = answer.body["error"]
        is_cancelled = error["code"] == "cancelled"  # by an administrator
        if not is_cancelled:
            job.error = {"code": error["code"], "message": error["message"], "param": error["param"]}
        self._end(job, Status.CANCELLED if is_cancelled else Status.FAILED)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        job = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            log_failure(error)
            job.error = {"code": "internal_error", "message": type(error).__name__, "param": None}
            self._end(job, Status.FAILED)
        self._start_next()

    def _end(self, job: BackgroundJob, status: Status) -> None:
        if self._open.pop(job.id, None) is None:  # cancelled while its request ended
            return
        kept = self._limits.background_kept
        job.end(status, kept)
        if not self._ended.put(job.id, job.owner, job, len(orjson.dumps(job.body()))):
            job.drop_text(self._limits.stored_bytes)
            self._ended.put(job.id, job.owner, job, len(orjson.dumps(job.body())))
        asyncio.get_running_loop().call_later(kept, self._ended.remove, job.id, job.owner)

    def find(self, job_id: str, owner: int | None) -> BackgroundJob:
        """Return the transcription. Raises `ApiError` if it is unknown, removed, expired or belongs to another key."""
        job = self._open.get(job_id)
        if job is None or job.owner != owner:
            job = self._ended.get(job_id, owner)
        if job is None:
            message = (
                f"no transcription in the background has the id {job_id[:MAX_ID_SHOWN]!r}: one that has ended is kept "
                f"for {self._limits.background_kept:g} s, and none across a restart of the server"
            )
            raise ApiError(404, message, code="transcription_not_found")
        return job

    def of_owner(self, owner: int | None) -> list[BackgroundJob]:
        """Return the transcriptions of a key in the order of their creation."""
        found = [*self._ended.of_owner(owner), *(job for job in self._open.values() if job.owner == owner)]
        return sorted(found, key=lambda job: job.created)

    def cancel(self, job: BackgroundJob) -> None:
        """End the transcription as cancelled; its text so far is kept."""
        self._end(job, Status.CANCELLED)
        if job.task is not None:
            job.task.cancel()

    def remove(self, job: BackgroundJob) -> None:
        self.cancel(job)
        self._ended.remove(job.id, job.owner)

    def holding(self, job_id: str) -> BackgroundJob:
        """Return the transcription of that id, whose request is running."""
        return next(job for job in self._tasks.values() if job.id == job_id)

    async def close(self) -> None:
        """Cancel all transcriptions, and wait until their requests have ended."""
        self._is_closed = True
        for job in [*self._open.values()]:
            self.cancel(job)
        await asyncio.gather(*self._tasks, return_exceptions=True)


def transcriptions_of(request: Request) -> BackgroundTranscriptions:
    store: BackgroundTranscriptions = request.app.state.transcriptions
    return store


def background_job(request: Request) -> BackgroundJob | None:
    """Return the transcription that the server's own request is made for, or None for a client's request."""
    caller: Caller | None = request.scope.get(CALLER)
    if caller is None or caller.background_id is None:
        return None
    return transcriptions_of(request).holding(caller.background_id)


async def start_in_background(request: Request, form: SoundForm, options: TranscriptionOptions) -> Response:
    """Queue a transcription and answer with its state; raise `ApiError` if options or the file's header are invalid."""
    serving, context, store = serving_of(request), context_of(request), transcriptions_of(request)
    store.check_room(context.key)
    model = await serving.models.ready(form.model, "transcribe")
    context.log_fields["model"] = model.name
    _check_language(model, options)
    duration = await asyncio.to_thread(_duration, form.file, serving)
    store.check_room(context.key)  # other requests may have been queued meanwhile
    job = BackgroundJob(form, options, model.name, duration, context.key, context.keep_alive)
    store.start(job)
    return json_response(job.body())


def _check_language(model: ReadyModel, options: TranscriptionOptions) -> None:
    tokenizer = model.text.tokenizer
    if isinstance(tokenizer, WhisperTokenizer):
        language_of(options, tokenizer.whisper, model.name)


def _duration(file: IO[bytes], serving: Serving) -> float | None:
    """Return the seconds of sound by the file's header, None if unknown. Raises `ApiError` if the file is not sound."""
    try:
        with open_upload(file, serving) as stream:
            return stream.source.seconds
    except AudioError as error:
        raise invalid(str(error), "file", "invalid_audio") from error
    finally:
        file.seek(0)
