"""Failures of the engine and of loading a model as error responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError, EngineError, MemoryBudgetError, MemoryBusyError
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.residency.resident import Resident
from antiphon.server.web.http.errors import ApiError, api_error, unavailable

if TYPE_CHECKING:
    from antiphon.runtime.process.client import EngineClient


#: The code of a failure that has nothing to do with memory.
LOAD_FAILED = "model_load_failed"


def load_failure(model: Resident, error: AntiphonError) -> ApiError:
    if isinstance(error, MemoryBudgetError | MemoryBusyError):
        return api_error(error)
    return unavailable(f"model {model.name!r} failed to load: {error}", LOAD_FAILED, 30)


def engine_unavailable(client: EngineClient) -> ApiError:
    """The error while the engine accepts no requests."""
    cause = f": {client.cause}" if client.cause else ""
    return unavailable(f"the engine is {client.state}{cause}", f"engine_{client.state}")


def engine_failure(client: EngineClient, error: EngineError) -> ApiError:
    """503 if the engine process died, so that clients retry; otherwise the request itself failed, with 500."""
    if client.state is not EngineState.READY:
        return unavailable(f"the engine is {client.state}: {error}", f"engine_{client.state}")
    return ApiError(500, str(error), code="engine_error", kind="server_error")
