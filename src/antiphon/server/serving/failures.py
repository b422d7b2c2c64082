"""Error responses for failures of the engine and of loading a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError, EngineError, MemoryBudgetError, MemoryBusyError
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.residency.resident import Resident
from antiphon.server.web.http.errors import ApiError, api_error, unavailable

if TYPE_CHECKING:
    from antiphon.runtime.process.client import EngineClient


#: Error code of load failures other than a lack of memory.
LOAD_FAILED = "model_load_failed"


def load_failure(model: Resident, error: AntiphonError) -> ApiError:
    if isinstance(error, MemoryBudgetError | MemoryBusyError):
        return api_error(error)
    return unavailable(f"model {model.name!r} failed to load: {error}", LOAD_FAILED, 30)


def engine_unavailable(client: EngineClient) -> ApiError:
    """Return the 503 for requests that arrive while the engine is not ready, with its cause."""
    cause = f": {client.cause}" if client.cause else ""
    return unavailable(f"the engine is {client.state}{cause}", f"engine_{client.state}")


def engine_failure(client: EngineClient, error: EngineError) -> ApiError:
    """Return 503 if the engine process died, so that clients retry; otherwise 500, since the request itself failed."""
    if client.state is not EngineState.READY:
        return unavailable(f"the engine is {client.state}: {error}", f"engine_{client.state}")
    return ApiError(500, str(error), code="engine_error", kind="server_error")
