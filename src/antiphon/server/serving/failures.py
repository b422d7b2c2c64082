"""Failures of the engine and of loading a model as error responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError, EngineError, MemoryBudgetError, MemoryBusyError
from antiphon.runtime.client import EngineState
from antiphon.runtime.residency import Resident
from antiphon.server.http.errors import ApiError, api_error, unavailable

if TYPE_CHECKING:
    from antiphon.runtime.client import EngineClient


def load_failure(model: Resident, error: AntiphonError) -> ApiError:
    if isinstance(error, MemoryBudgetError | MemoryBusyError):
        return api_error(error)
    return unavailable(f"model {model.name!r} failed to load: {error}", "model_load_failed", 30)


def engine_unavailable(client: EngineClient) -> ApiError:
    """Why the engine takes no requests now."""
    cause = f": {client.cause}" if client.cause else ""
    return unavailable(f"the engine is {client.state}{cause}", f"engine_{client.state}")


def engine_failure(client: EngineClient, error: EngineError) -> ApiError:
    """An engine that died is unavailable, and the request may be sent again; any other failure is the request's own."""
    if client.state is not EngineState.READY:
        return unavailable(f"the engine is {client.state}: {error}", f"engine_{client.state}")
    return ApiError(500, str(error), code="engine_error", kind="server_error")
