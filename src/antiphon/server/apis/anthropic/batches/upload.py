"""Reading the body of a new message batch into the input file of a batch, without holding it whole in memory."""

from __future__ import annotations

import asyncio
import re
import tempfile
from typing import IO, Any

import orjson
from fastapi import Request
from starlette.requests import ClientDisconnect

from antiphon.server.apis.anthropic.batches.request_splitter import RequestSplitter
from antiphon.server.serving.setup.config import Limits
from antiphon.server.stored.batches.record import MESSAGES
from antiphon.server.stored.files.record import BATCH_FILE_SECONDS, FileRecord
from antiphon.server.stored.files.store import FileStore, storage_error
from antiphon.server.web.bodies.body_size import check_structure
from antiphon.server.web.bodies.json_body import check_json_type, too_large
from antiphon.server.web.http.context import RequestContext, context_of
from antiphon.server.web.http.errors import ClientDisconnectedError, invalid

CUSTOM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
FIELDS = ("custom_id", "params")
FILENAME = "message_batch.jsonl"


async def store_requests(request: Request, files: FileStore, owner: str, limits: Limits) -> tuple[FileRecord, int]:
    """Store the requests of the body; return their file and their number. Raises `ApiError`."""
    check_json_type(request)
    declared = request.headers.get("content-length", "")
    size = int(declared) if declared.isdecimal() and len(declared) < 20 else None
    if size is not None and size > limits.file_bytes:
        raise too_large(size, limits.file_bytes)
    reserved = files.reserve(owner, size)
    try:
        with tempfile.TemporaryFile() as lines:
            upload = _Upload(lines, context_of(request), limits)
            await _read(request, upload, min(reserved, limits.file_bytes))
            num_requests = await asyncio.to_thread(upload.finish)
            made = await files.add(owner, lines, FILENAME, "batch", BATCH_FILE_SECONDS)
    except OSError as error:
        raise storage_error(error) from error
    finally:
        files.release(owner, reserved)
    return made, num_requests


async def _read(request: Request, upload: _Upload, most: int) -> None:
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise too_large(size, most)
            if piece:
                await asyncio.to_thread(upload.take, piece)
    except ClientDisconnect:
        raise ClientDisconnectedError from None


class _Upload:
    """Writer of the batch's input file, in the format that `batches.input_lines` reads. Its methods block."""

    def __init__(self, target: IO[bytes], context: RequestContext, limits: Limits) -> None:
        self._target = target
        self._context = context
        self._splitter = RequestSplitter(limits.batch_requests, limits.body_bytes)
        self._seen: set[str] = set()

    def take(self, piece: bytes) -> None:
        for request in self._splitter.feed(piece):
            self._target.write(self._line(request, self._splitter.num_requests - 1) + b"\n")

    def finish(self) -> int:
        """Check the end of the body, rewind the file, and return the number of requests."""
        for name in self._splitter.finish():
            self._note_unknown(name, name)
        self._target.seek(0)
        return self._splitter.num_requests

    def _line(self, data: bytes, number: int) -> bytes:
        param = f"requests[{number}]"
        check_structure(data)
        try:
            request = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise invalid(f"{param} is not JSON: {error}", param, "invalid_json") from None
        if not isinstance(request, dict):
            raise invalid(f"{param} is not an object", param)
        for name in FIELDS:
            if name not in request:
                raise invalid(f"{param}.{name} is missing", f"{param}.{name}", "missing_required_parameter")
        for name in request.keys() - set(FIELDS):
            self._note_unknown(f"{param}.{name}", f"requests[].{name}")
        custom_id, params = request["custom_id"], request["params"]
        if not isinstance(custom_id, str) or CUSTOM_ID.fullmatch(custom_id) is None:
            message = f"{param}.custom_id is not a string of 1 to 64 letters, digits, hyphens and underscores"
            raise invalid(message, f"{param}.custom_id")
        if custom_id in self._seen:
            raise invalid(f"{param}.custom_id {custom_id!r} is that of an earlier request", f"{param}.custom_id")
        self._seen.add(custom_id)
        if not isinstance(params, dict):
            raise invalid(f"{param}.params is not an object", f"{param}.params")
        if params.get("stream"):
            raise invalid(f"{param}.params.stream: a request of a batch is not streamed", f"{param}.params.stream")
        line: dict[str, Any] = {"custom_id": custom_id, "method": "POST", "url": MESSAGES, "body": params}
        return orjson.dumps(line)

    def _note_unknown(self, path: str, shown: str) -> None:
        if self._context.is_strict:
            raise invalid(f"{path[:200]} is not a field of this request", path[:200], "unknown_parameter")
        self._context.ignored.add(shown)
