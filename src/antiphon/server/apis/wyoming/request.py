"""A request of a Wyoming client, admitted, counted, ended and logged like requests over HTTP."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from antiphon.errors import AntiphonError, EngineError
from antiphon.server.apis.wyoming.frames import Frame
from antiphon.server.apis.wyoming.metrics import WyomingMetrics
from antiphon.server.serving.failures import engine_failure
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext, current_context
from antiphon.server.web.http.errors import SERVER, ApiError, api_error, unavailable
from antiphon.server.web.telemetry.logs import log, log_failure

METHOD = "WYOMING"
Result = TypeVar("Result")


class Link(Protocol):
    """Connection to the client of a request."""

    async def receive(self) -> Frame:
        """Return the next event. Raises `ApiError` if it does not arrive in time."""

    async def send(self, *frames: Frame) -> None:
        """Send frames, and return when the client keeps up. Raises `ConnectionError` if the client has disconnected."""


async def run_request(
    serving: Serving, metrics: WyomingMetrics, name: str, work: Callable[[RequestContext], Awaitable[None]]
) -> None:
    """Run the work of a request in this task. Any failure but `ConnectionError` raises `ApiError`.

    Cancelling releases what the request holds.
    """
    context = RequestContext(uuid.uuid4().hex, METHOD, name, logs_text=serving.config.logs_text)
    token = current_context.set(context)
    status = "disconnected"
    try:
        if serving.is_draining:
            raise unavailable("the server is shutting down", "shutting_down")
        serving.requests.add(context)
        await work(context)
        context.status, status = 200, "ok"
    except asyncio.CancelledError:
        if context.ending is None or context.task is None:
            raise
        context.task.uncancel()
        context.status, status = context.ending.status, context.ending.code
        raise context.ending from None
    except ConnectionError:
        raise
    except ApiError as error:
        context.status, status = error.status, error.code
        raise
    except Exception as error:
        failure = _failure(serving, error, context)
        context.status, status = failure.status, failure.code
        raise failure from error
    finally:
        context.close()
        serving.requests.remove(context)
        current_context.reset(token)
        metrics.ended(name, status)
        if context.status >= 400:
            context.log_fields["code"] = status
        log(
            "request",
            request_id=context.request_id,
            method=METHOD,
            route=name,
            status=context.status,
            seconds=round(context.seconds, 4),
            **context.log_fields,
        )


def _failure(serving: Serving, error: Exception, context: RequestContext) -> ApiError:
    if isinstance(error, EngineError):
        return engine_failure(serving.client, error)
    if isinstance(error, AntiphonError):
        return api_error(error)
    log_failure(error, request_id=context.request_id)
    return ApiError(500, f"an internal error occurred ({type(error).__name__})", code="internal_error", kind=SERVER)


def limit_time(context: RequestContext, seconds: float) -> None:
    """End the request with an error unless it ends within `seconds`."""
    error = ApiError(504, f"the request took longer than {seconds:g} s", code="timeout", kind=SERVER)
    timer = asyncio.get_running_loop().call_later(seconds, context.end_with, error)
    context.at_end.append(timer.cancel)


async def beside(feeding: Coroutine[Any, Any, None], reporting: Coroutine[Any, Any, Result]) -> Result:
    """Run both concurrently, and return the result of `reporting`. The first failure of either cancels the other."""
    tasks = feeder, reporter = asyncio.create_task(feeding), asyncio.create_task(reporting)
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        return reporter.result()
    finally:
        for task in (feeder, reporter):
            task.cancel()
        await asyncio.gather(feeder, reporter, return_exceptions=True)
