"""`GET /`: the web page; `/page/...`: its files, and the server's status for it.

These routes need no key, because they contain nothing of a user's. All other content comes from the routes of the API,
with the key that the user enters.
"""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Request, Response

from antiphon import __version__
from antiphon.runtime.process.client import EngineState
from antiphon.server.page.files import PageFile, PageFiles
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import ApiError

router = APIRouter()

#: Allows only the page's own files, and connections to this server.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "media-src 'self' blob:",
        "connect-src 'self'",  # WebSockets of the same origin too
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
FOREVER = "public, max-age=31536000, immutable"
REVALIDATED = "no-cache"
RUNNING = "Antiphon is running"


@cache
def page_files() -> PageFiles:
    return PageFiles()


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """Return the page to browsers, and a line of text to programs that check for a server, like Ollama's clients."""
    if "text/html" not in request.headers.get("accept", ""):
        return Response(RUNNING, media_type="text/plain", headers={"vary": "accept"})
    return file_response(request, page_files().index, REVALIDATED, vary="accept, accept-encoding")


@router.get("/page/status", include_in_schema=False)
async def status(request: Request) -> Response:
    """Return the status of `/readyz`, always with HTTP status 200: browsers log any other as an error of the page.

    `limits` are the maximum bytes of request bodies, which the page checks before it sends one.
    """
    serving = serving_of(request)
    client, models = serving.client, serving.models
    state, cause = "ready", None
    if serving.is_draining:
        state = "draining"
    elif client.state is not EngineState.READY:
        state, cause = str(client.state), client.cause
    elif not models.is_ready:
        # the status "failed" is the engine's: without one of its models, a server can use the others
        state, cause = "incomplete" if models.cause else models.status, models.cause
    most = serving.config.limits
    told = {
        "status": state,
        "cause": cause,
        "version": __version__,
        "page": page_files().version,
        "limits": {"json": most.body_bytes, "recording": most.audio_bytes},
    }
    return json_response(told)


@router.get("/page/{path:path}", include_in_schema=False)
async def page_file(request: Request, path: str) -> Response:
    """Return a file by its address with the current version, with an older version, or without a version."""
    files = page_files()
    version, _, name = path.partition("/")
    found = files.files.get(path) or files.files.get(name)
    if found is None:
        raise ApiError(404, "the page has no such file", code="not_found")
    return file_response(request, found, FOREVER if version == files.version else REVALIDATED)


def file_response(request: Request, file: PageFile, caching: str, vary: str = "accept-encoding") -> Response:
    headers = {**HEADERS, "cache-control": caching, "etag": file.etag, "vary": vary}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    headers["content-type"] = file.content_type
    if file.compressed is not None and accepts_gzip(request.headers.get("accept-encoding", "")):
        return Response(file.compressed, headers={**headers, "content-encoding": "gzip"})
    return Response(file.content, headers=headers)


def accepts_gzip(given: str) -> bool:
    """Return whether an `Accept-Encoding` header accepts gzip by name."""
    for coding in given.split(","):
        name, *parameters = (part.strip().lower() for part in coding.split(";"))
        if name == "gzip":
            return not any(parameter.partition("=")[2] in ("0", "0.0", "0.00", "0.000") for parameter in parameters)
    return False
