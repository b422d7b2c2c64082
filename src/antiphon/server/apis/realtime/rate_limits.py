"""`rate_limits`: what the key of a session may still do, as `rate_limits.updated` tells it."""

from __future__ import annotations

from typing import Any

from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext


def rate_limits(serving: Serving, context: RequestContext) -> list[dict[str, Any]]:
    """Requests in flight of the session's key, this session included. Empty where nothing is limited.

    There is no time to wait for: a request that ends makes room for the next.
    """
    limit = serving.config.limits.requests_per_key
    if serving.config.keys is None or limit is None:
        return []
    remaining = max(0, limit - serving.requests.count_of_key(context.key))
    return [{"name": "requests", "limit": limit, "remaining": remaining, "reset_seconds": 0.0}]
