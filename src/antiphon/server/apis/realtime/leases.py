"""`Leases`: keeps a realtime session's models loaded: those in use, and the last one used for each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from antiphon.errors import EngineError, InvalidRequestError
from antiphon.server.apis.realtime.model_names import DEFAULTS, served_name
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext, current_context
from antiphon.server.web.http.errors import ApiError


class ModelLease:
    """A model that stays loaded until the lease is closed. May be closed twice."""

    def __init__(self, model: ReadyModel, context: RequestContext) -> None:
        self.model = model
        self._context = context

    def close(self) -> None:
        self._context.close()


class Leases:
    """Leases of one session. A task's model stays loaded between turns, until another one replaces it."""

    def __init__(self, serving: Serving, session_id: str) -> None:
        self._serving = serving
        self._session_id = session_id
        #: Lease of the model used last, by task.
        self._kept: dict[str, ModelLease] = {}
        self._is_closed = False
        #: Context that keeps a detector loaded, by the detector's name.
        self._detectors: dict[str, RequestContext] = {}

    async def take(self, name: str | None, task: str, detectors: Sequence[str] | None = None) -> ModelLease:
        """Lease the model of that name, or the task's default one, loading it if necessary. Raises `AntiphonError`.

        With `detectors`, even if empty, the model's own detectors are loaded too.
        """
        lease = await self._lease(name, task, detectors)
        kept = self._kept.get(task)
        if (kept is None or kept.model.name != lease.model.name) and not self._is_closed:
            try:
                self._kept[task] = await self._lease(name, task, detectors)
            except BaseException:
                lease.close()
                raise
            if kept is not None:
                kept.close()
            if self._is_closed:
                self._kept.pop(task).close()
        return lease

    async def _lease(self, name: str | None, task: str, detectors: Sequence[str] | None) -> ModelLease:
        models = self._serving.models
        context = RequestContext(self._session_id)
        token = current_context.set(context)
        try:
            with as_ours():
                model = await models.ready(served_name(models, name, task) or DEFAULTS[task], task)
                if detectors is not None:
                    await models.acquire_companions(model, *detectors)
        except BaseException:
            context.close()
            raise
        finally:
            current_context.reset(token)
        return ModelLease(model, context)

    async def hold_detector(self, name: str) -> None:
        """Load a detector, which stays loaded until the session ends. Raises `ApiError`."""
        if name in self._detectors:
            return
        context = RequestContext(self._session_id)
        token = current_context.set(context)
        try:
            await self._serving.models.acquire_detector(name)
        except BaseException:
            context.close()
            raise
        finally:
            current_context.reset(token)
        if self._is_closed or name in self._detectors:
            context.close()
        else:
            self._detectors[name] = context

    def close(self) -> None:
        self._is_closed = True
        while self._detectors:
            self._detectors.popitem()[1].close()
        while self._kept:
            self._kept.popitem()[1].close()


@contextmanager
def as_ours() -> Iterator[None]:
    """Translate `ApiError` for a voice session: `EngineError` for 429 and 5xx, otherwise `InvalidRequestError`."""
    try:
        yield
    except ApiError as error:
        kind = EngineError if error.status >= 500 or error.status == 429 else InvalidRequestError
        raise kind(error.message) from error
