"""Results of a message batch that has ended, as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from antiphon.server.stored.batches.input_lines import read_input
from antiphon.server.stored.batches.journal import EXPIRED
from antiphon.server.stored.batches.record import MESSAGES, BatchRecord
from antiphon.server.stored.files.store import FileStore

#: Minimum bytes of a chunk of lines, except the last.
CHUNK_BYTES = 1 << 16


def results(record: BatchRecord, files: FileStore, max_line: int) -> Iterator[bytes]:
    """Yield chunks of lines, with one result for each request of the batch. Blocks."""
    chunk = bytearray()
    for custom_id, result in _results(record, files, max_line):
        chunk += orjson.dumps({"custom_id": custom_id, "result": result}) + b"\n"
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def _results(record: BatchRecord, files: FileStore, max_line: int) -> Iterator[tuple[str, dict[str, Any]]]:
    done: set[str] = set()
    for file_id in (record.output_file_id, record.error_file_id):
        if file_id is None:
            continue
        with open(files.path(file_id), "rb") as stream:
            for data in stream:
                line = orjson.loads(data)
                done.add(line["custom_id"])
                yield line["custom_id"], _result(line)
    if len(done) == record.counts.total:
        return
    rest: dict[str, Any] = {"type": "canceled"}
    if record.status == "failed":
        rest = _errored(record.errors[0].message if record.errors else "the batch failed")
    for request in read_input(files.path(record.input_file_id), MESSAGES, max_line):
        if request.custom_id not in done:
            yield request.custom_id, rest


def _result(line: dict[str, Any]) -> dict[str, Any]:
    response, error = line["response"], line["error"]
    if response is None:
        return {"type": "expired"} if error["code"] == EXPIRED[0] else _errored(error["message"])
    body = response["body"]
    return (
        {"type": "errored", "error": body} if response["status_code"] >= 400 else {"type": "succeeded", "message": body}
    )


def _errored(message: str) -> dict[str, Any]:
    error = {"type": "error", "error": {"type": "api_error", "message": message}, "request_id": None}
    return {"type": "errored", "error": error}
