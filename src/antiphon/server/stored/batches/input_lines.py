"""The input file of a batch, one request per line: checked as a whole, then read line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from antiphon.server.stored.batches.record import BatchFault

MAX_FAULTS = 100
MAX_CUSTOM_ID = 512
SHOWN = 100
FIELDS = ("custom_id", "method", "url", "body")


@dataclass(frozen=True)
class InputLine:
    number: int
    custom_id: str
    body: dict[str, Any]


@dataclass
class Checked:
    """Result of validation. `model` is the model of all requests, or None if they name several or none."""

    num_requests: int = 0
    model: str | None = None
    faults: list[BatchFault] = field(default_factory=list)


class LineFaultError(ValueError):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def check_input(path: Path, endpoint: str, max_requests: int, max_line: int) -> Checked:
    """Check every line, and report the first `MAX_FAULTS` faults with their lines. Blocks: call it in a thread."""
    checked = Checked()
    models: set[str] = set()
    seen: set[str] = set()
    for number, data in _lines(path, max_line):
        try:
            line = _parsed(number, data, endpoint, max_line)
            if line.custom_id in seen:
                message = f"the custom_id {line.custom_id[:SHOWN]!r} is used on an earlier line"
                raise LineFaultError("duplicate_custom_id", message, "custom_id")
        except LineFaultError as error:
            checked.faults.append(BatchFault(code=error.code, message=str(error), param=error.param, line=number))
            if len(checked.faults) >= MAX_FAULTS:
                return checked
            continue
        seen.add(line.custom_id)
        model = line.body.get("model")
        if isinstance(model, str) and len(models) < 2:
            models.add(model[:SHOWN])
        checked.num_requests += 1
        if checked.num_requests > max_requests:
            message = f"the file has more than {max_requests:,} requests, which is the limit of one batch"
            checked.faults.append(BatchFault(code="too_many_requests", message=message, line=number))
            return checked
    if not checked.num_requests and not checked.faults:
        checked.faults.append(BatchFault(code="empty_file", message="the input file has no request"))
    checked.model = models.pop() if len(models) == 1 else None
    return checked


def read_input(path: Path, endpoint: str, max_line: int) -> Iterator[InputLine]:
    """Yield the requests of a file in which `check_input` found no fault."""
    for number, data in _lines(path, max_line):
        yield _parsed(number, data, endpoint, max_line)


def _lines(path: Path, max_line: int) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of lines that are not empty. A line that is too long is cut off."""
    with open(path, "rb") as stream:
        number = 0
        while data := stream.readline(max_line + 2):
            number += 1
            rest = data
            while not rest.endswith(b"\n") and (rest := stream.readline(1 << 20)):
                pass
            if number == 1:
                data = data.removeprefix(b"\xef\xbb\xbf")
            if data.strip():
                yield number, data


def _parsed(number: int, data: bytes, endpoint: str, max_line: int) -> InputLine:
    if len(data.rstrip(b"\r\n")) > max_line:
        raise LineFaultError("line_too_long", f"the line has more than {max_line:,} bytes")
    try:
        request = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise LineFaultError("invalid_json_line", f"the line is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise LineFaultError("invalid_json_line", "the line is not a JSON object")
    missing = [name for name in FIELDS if name not in request]
    if missing:
        raise LineFaultError("missing_required_parameter", f"{missing[0]} is missing", missing[0])
    unknown = sorted(request.keys() - set(FIELDS))
    if unknown:
        raise LineFaultError(
            "unknown_parameter", f"{unknown[0][:SHOWN]!r} is not a field of a request", unknown[0][:SHOWN]
        )
    custom_id, url, body = request["custom_id"], request["url"], request["body"]
    if not isinstance(custom_id, str) or not 1 <= len(custom_id) <= MAX_CUSTOM_ID:
        raise LineFaultError("invalid_custom_id", f"custom_id is not a string of 1 to {MAX_CUSTOM_ID}", "custom_id")
    if request["method"] != "POST":
        raise LineFaultError("invalid_method", "method is not POST", "method")
    if url != endpoint:
        raise LineFaultError("mismatched_url", f"url is {str(url)[:SHOWN]!r}; the batch is for {endpoint}", "url")
    if not isinstance(body, dict):
        raise LineFaultError("invalid_body", "body is not a JSON object", "body")
    for name in ("stream", "background"):
        if body.get(name):
            raise LineFaultError("invalid_body", f"a request of a batch cannot have {name}", f"body.{name}")
    return InputLine(number, custom_id, body)
