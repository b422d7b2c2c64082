"""`Leases`: which models a realtime session keeps loaded: those in use, and for each task the one used last."""

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
    """A loaded model, until it is closed. May be closed twice."""

    def __init__(self, model: ReadyModel, context: RequestContext) -> None:
        self.model = model
        self._context = context

    def close(self) -> None:
        self._context.close()


class Leases:
    """A model stays loaded between the turns of a session, until another one takes its place."""

    def __init__(self, serving: Serving, session_id: str) -> None:
        self._serving = serving
        self._session_id = session_id
        #: By task.
        self._kept: dict[str, ModelLease] = {}
        self._is_closed = False
        #: What keeps detectors loaded, by name.
        self._detectors: dict[str, RequestContext] = {}

    async def take(self, name: str | None, task: str, detectors: Sequence[str] | None = None) -> ModelLease:
        """The model of that name, or the default one, loaded if need be. Raises `AntiphonError`.

        With `detectors`, which may be none, the model's own are loaded too.
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
        """Have a detector loaded until the session ends. Raises `ApiError`."""
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
    """Error responses as errors that a voice session knows: the request's fault, or the engine's."""
    try:
        yield
    except ApiError as error:
        kind = EngineError if error.status >= 500 or error.status == 429 else InvalidRequestError
        raise kind(error.message) from error
