"""`/admin/models/pull`: download a model without loading it, report the progress, and cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.errors import AntiphonError
from antiphon.server.serving.admin.request_schemas import AdminCancelBody, AdminPullBody
from antiphon.server.serving.downloads import Download, Downloads, downloads_of
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.errors import ApiError, api_error
from antiphon.server.web.http.events import DONE, event
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.fetch import FetchProgress
from antiphon.weights.catalog.hub_models import HUB_REFERENCE
from antiphon.weights.catalog.resolve import ResolvedModel

router = APIRouter(prefix="/admin", include_in_schema=False)
PROGRESS_SECONDS = 0.2


@router.post("/models/pull")
async def pull(request: Request) -> Response:
    """Download a model of the catalog or the hub. Requests for the same model share one download."""
    serving = serving_of(request)
    body = await read_body(request, AdminPullBody, serving.config.limits.body_bytes)
    name = stored_name(serving, body.model)
    if name is None:
        message = f"model {body.model!r} is loaded from a path on the server; there is nothing to download"
        raise ApiError(400, message, code="invalid_value")
    download = downloads_of(request).start(name)
    if body.stream is False:
        resolved = await unless_disconnected(request, download.wait())
        return json_response(await asyncio.to_thread(_pulled, resolved))
    return EventStream(_events(download), lambda: None)


@router.post("/models/pull/cancel")
async def cancel(request: Request) -> Response:
    """End a download. Requests that wait for it get the error `download_cancelled`."""
    serving = serving_of(request)
    body = await read_body(request, AdminCancelBody, serving.config.limits.body_bytes)
    name = stored_name(serving, body.model)
    download = None if name is None else downloads_of(request).find(name)
    if download is None:
        raise ApiError(404, f"model {body.model[:200]!r} is not being downloaded", code="download_not_found")
    download.cancel()
    await asyncio.wait([download.task])
    return json_response({"model": name, "cancelled": True})


def stored_name(serving: Serving, name: str) -> str | None:
    """Return a model's name in the model store, or None for a model loaded from a path.

    Raise a 404 that suggests the closest names if the name is unknown.
    """
    reference = name
    if name.lower() not in catalog() and HUB_REFERENCE.fullmatch(name) is None:
        reference = serving.models.find(name).reference
    known = reference.partition(":")[0].lower()  # `name:file` is one of an entry's models
    if known in catalog():
        return known
    return reference if HUB_REFERENCE.fullmatch(reference) is not None else None


async def _events(download: Download) -> AsyncGenerator[bytes]:
    """Yield the progress of a download, a few times a second. The download continues if the client disconnects."""
    sent: FetchProgress | None = None
    num_notices = 0
    try:
        while not download.task.done():
            await asyncio.wait([download.task], timeout=PROGRESS_SECONDS)
            for notice in download.notices[num_notices:]:
                num_notices += 1
                yield event(progress_card(notice))
            if download.progress is not None and download.progress != sent:
                sent = download.progress
                yield event(progress_card(sent))
        yield event(await asyncio.to_thread(_pulled, await download.wait()))
        yield DONE
    except AntiphonError as error:
        yield event(api_error(error).body())


def progress_card(update: FetchProgress) -> dict[str, Any]:
    return {"status": update.activity, "completed_bytes": update.done, "total_bytes": update.total}


def download_cards(downloads: Downloads) -> list[dict[str, Any]]:
    """Describe the running downloads. A download that has not begun has no total yet."""
    none = {"status": "starting", "completed_bytes": 0, "total_bytes": None}
    return [
        {"model": one.reference, **(none if one.progress is None else progress_card(one.progress))} for one in downloads
    ]


def _pulled(resolved: ResolvedModel) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in resolved.files.values())
    return {"status": "success", "model": resolved.name, "bytes": size}
