"""`Serving`: objects that the handlers of one server share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request

from antiphon.server.serving.models import ServedModels
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.telemetry.metrics import Metrics
from antiphon.server.web.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from antiphon.runtime.process.client import EngineClient


class Serving:
    """Shared objects of one application, in `app.state.serving`. Stores of some routes are in `app.state` beside it."""

    def __init__(self, config: ServerConfig, client: EngineClient) -> None:
        self.config = config
        self.client = client
        self.metrics = Metrics()
        self.models = ServedModels(config, client)
        self.requests = ActiveRequests()
        self.tracing = None if config.otlp_endpoint is None else Tracing(config.otlp_endpoint)
        self.is_draining = False


def serving_of(request: Request) -> Serving:
    serving: Serving = request.app.state.serving
    return serving
