"""Lists in pages: by `after`, `limit` and `order` as in OpenAI's API, and between ids as in Anthropic's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query

from antiphon.server.web.http.errors import ApiError, invalid

Order = Literal["asc", "desc"]
#: Maximum items of a page; 0 gives an empty page.
Limit = Annotated[int, Query(ge=0, le=100)]
After = Annotated[str | None, Query(max_length=512)]


def page(items: Sequence[dict[str, Any]], after: str | None, limit: int, order: Order = "asc") -> dict[str, Any]:
    """Return the page after the item with id `after`. `items` are in ascending order, each with an `id`."""
    items = items if order == "asc" else items[::-1]
    start = 0
    if after is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise invalid(f"after: the list has no item {after[:100]!r}", "after")
        start = ids.index(after) + 1
    shown = items[start : start + limit]
    first, last = (shown[0]["id"], shown[-1]["id"]) if shown else ("", "")
    has_more = start + limit < len(items)
    return {"object": "list", "data": shown, "first_id": first, "last_id": last, "has_more": has_more}


def page_between(
    items: Sequence[dict[str, Any]], after: str | None, before: str | None, limit: int, kind: str
) -> dict[str, Any]:
    """Return the page after the item with id `after` or before id `before`. `kind` names the items in an error."""
    ids = [item["id"] for item in items]
    for given in (after, before):
        if given is not None and given not in ids:
            code = f"{kind.replace(' ', '_')}_not_found"
            raise ApiError(404, f"there is no {kind} {given[:200]!r}", code=code)
    if before is not None:
        items = items[: ids.index(before)]
        has_more, shown = len(items) > limit, items[-limit:]
    else:
        items = items[0 if after is None else ids.index(after) + 1 :]
        has_more, shown = len(items) > limit, items[:limit]
    first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    return {"data": list(shown), "has_more": has_more, "first_id": first, "last_id": last}
