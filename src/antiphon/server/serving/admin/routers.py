"""Routes of health, models and administration."""

from __future__ import annotations

from antiphon.server.serving.admin import events, model_deletion, models, pulls, requests, state, stored_models

ROUTERS = (
    state.router,
    model_deletion.router,
    models.router,
    pulls.router,
    stored_models.router,
    requests.router,
    events.router,
)
