"""`rate_limits`: the limits of a session's API key, for the event `rate_limits.updated`."""

from __future__ import annotations

from typing import Any

from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext


def rate_limits(serving: Serving, context: RequestContext) -> list[dict[str, Any]]:
    """Return the limit of requests in flight of the session's key, this session included; empty if unlimited.

    `reset_seconds` is 0, because a request that ends makes room immediately.
    """
    limit = serving.config.limits.requests_per_key
    if serving.config.keys is None or limit is None:
        return []
    remaining = max(0, limit - serving.requests.count_of_key(context.key))
    return [{"name": "requests", "limit": limit, "remaining": remaining, "reset_seconds": 0.0}]
