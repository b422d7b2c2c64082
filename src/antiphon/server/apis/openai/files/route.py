"""`/v1/files`: upload, list, read and delete files."""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import FileResponse

from antiphon.server.apis.openai.files.schemas import FileAnswer, FileDeletedAnswer, FileForm, FilesAnswer
from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.files.access import files_of, owner_of
from antiphon.server.stored.files.record import BATCH_FILE_SECONDS
from antiphon.server.stored.files.store import FileStore
from antiphon.server.web.bodies.json_body import too_large
from antiphon.server.web.bodies.uploads import base_name, read_file_form
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.openapi import FORM, described
from antiphon.server.web.http.paging import After, Order, page

router = APIRouter()

#: Maximum bytes of a form besides the file: boundaries, headers of parts, other fields.
FORM_BYTES = 1 << 16
MAX_NAME = 255


@router.post("/v1/files")
@described(body=FileForm, answer=FileAnswer, body_type=FORM)
async def upload_file(request: Request) -> Response:
    files, owner = files_of(request), owner_of(request)
    most = serving_of(request).config.limits.file_bytes
    declared = request.headers.get("content-length", "")
    size = int(declared) if declared.isdecimal() and len(declared) < 20 else None
    if size is not None and size > most + FORM_BYTES:
        raise too_large(size, most)
    limit = files.reserve(owner, size)
    try:
        return await _store(request, files, owner, min(limit, most + FORM_BYTES), most)
    finally:
        files.release(owner, limit)


async def _store(request: Request, files: FileStore, owner: str, limit: int, most: int) -> Response:
    """Read the form and store its file; the form may have `limit` bytes, and the file `most`."""
    form, name = await read_file_form(request, FileForm, limit)
    try:
        size = form.file.seek(0, os.SEEK_END)
        form.file.seek(0)
        if size > most:
            raise too_large(size, most)
        expires = BATCH_FILE_SECONDS if form.purpose == "batch" else None
        if form.expires_after is not None:
            expires = form.expires_after.seconds
        record = await files.add(owner, form.file, name[:MAX_NAME] or "upload", form.purpose, expires)
    finally:
        form.file.close()
    return json_response(record.body())


@router.get("/v1/files")
@described(answer=FilesAnswer)
async def list_files(
    request: Request,
    after: After = None,
    limit: Annotated[int, Query(ge=0, le=10_000)] = 10_000,
    order: Order = "desc",
    purpose: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    records = files_of(request).of_owner(owner_of(request), purpose)
    return json_response(page([record.body() for record in records], after, limit, order))


@router.get("/v1/files/{file_id}")
@described(answer=FileAnswer)
async def get_file(request: Request, file_id: str) -> Response:
    return json_response(files_of(request).find(file_id, owner_of(request)).body())


@router.get("/v1/files/{file_id}/content")
@described(other_types=("application/octet-stream",))
async def file_content(request: Request, file_id: str) -> Response:
    files = files_of(request)
    record = files.find(file_id, owner_of(request))
    # Otherwise a browser could show the file as a page of this server.
    headers = {"x-content-type-options": "nosniff"}
    kind = "application/octet-stream"
    return FileResponse(
        files.path(record.id), media_type=kind, filename=base_name(record.filename) or record.id, headers=headers
    )


@router.delete("/v1/files/{file_id}")
@described(answer=FileDeletedAnswer)
async def delete_file(request: Request, file_id: str) -> Response:
    files = files_of(request)
    record = files.find(file_id, owner_of(request))
    await files.remove(record)
    return json_response({"id": record.id, "object": "file", "deleted": True})
