"""`JobRunner`: submits the requests of window jobs to the engine, for recordings and for live sessions."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

from antiphon.engine.request import FinishReason, Request
from antiphon.errors import EngineError
from antiphon.runtime.calls.port import EnginePort
from antiphon.runtime.transcription.window.decoding import WindowJob


class CancelledTranscriptionError(EngineError):
    """The transcription was cancelled, or its reader has left."""


class JobRunner:
    """Runner of window jobs for the thread that owns them.

    Ended requests go to `inbox`, which may take other items too.
    """

    def __init__(self, port: EnginePort, inbox: SimpleQueue[Any] | None = None) -> None:
        self._port = port
        self._inbox: SimpleQueue[Any] = SimpleQueue() if inbox is None else inbox
        self._owners: dict[str, WindowJob] = {}

    def start(self, job: WindowJob) -> None:
        self._submit(job, job.start())

    def _submit(self, job: WindowJob, requests: list[Request]) -> None:
        if not requests:
            return
        for request in requests:
            request.on_end = self._inbox.put
            self._owners[request.id] = job
        try:
            self._port.loop.add(requests).result()
        except BaseException:
            for request in requests:
                self._owners.pop(request.id, None)
            raise

    def take(self, request: Request) -> WindowJob | None:
        """Continue the job of an ended request; return the job if it is done.

        Raise EngineError if the request failed.
        """
        job = self._owners.pop(request.id, None)
        if job is None:
            return None
        if request.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
            raise EngineError(f"transcription ended by {request.finish_reason}: {request.error or 'no result'}")
        self._submit(job, job.advance(request))
        return job if job.is_done else None

    def wait(self) -> WindowJob:
        """Return the next job that is done."""
        while True:
            request = self._inbox.get()
            if request is None:
                raise CancelledTranscriptionError("the transcription was cancelled")
            job = self.take(request)
            if job is not None:
                return job

    def cancel(self) -> None:
        """Make `wait` raise CancelledTranscriptionError. May be called from any thread."""
        self._inbox.put(None)

    def abort(self, job: WindowJob) -> None:
        """Abort a job, which then never completes. Its blocks are free before the next step."""
        ids = [request_id for request_id, owner in self._owners.items() if owner is job]
        for request_id in ids:
            del self._owners[request_id]
        self._port.loop.abort_all(ids, FinishReason.CANCELLED)

    def close(self) -> None:
        """Abort all requests that are still running."""
        self._port.loop.abort_all(list(self._owners), FinishReason.DISCONNECTED)
        self._owners.clear()
