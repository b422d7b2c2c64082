"""`RequestSplitter`: splits a large JSON body into its requests as the bytes arrive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from antiphon.server.web.http.errors import ApiError, invalid

MARK = re.compile(rb'["{}\[\]]')
STRING_MARK = re.compile(rb'["\\]')
#: Nesting depth of the list of requests: a bracket that opens at this depth starts a request.
OUTER_LEVELS = 2
#: Maximum bytes of the body outside its requests: fixed, plus a share per request.
OUTER_BYTES, OUTER_BYTES_EACH = 1 << 16, 64


class RequestSplitter:
    """Splitter of a body `{"requests": [...]}` that buffers and parses one request at a time.

    Requests are yielded as their bytes in the body. Each becomes a 0 in the text around them, so that parsing this text
    checks the syntax of the whole body.
    """

    def __init__(self, max_requests: int, max_request_bytes: int) -> None:
        self._max_requests = max_requests
        self._max_request_bytes = max_request_bytes
        self._outer = bytearray()
        self._request = bytearray()
        self._depth = 0
        self._is_in_string = False
        self._is_escaped = False
        self.num_requests = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the requests that end in this chunk of the body. Raises `ApiError` beyond a limit."""
        position = kept = 0
        while position < len(data):
            if self._is_escaped:
                self._is_escaped = False
                position += 1
                continue
            found = (STRING_MARK if self._is_in_string else MARK).search(data, position)
            if found is None:
                break
            position, mark = found.end(), found[0]
            if mark == b'"':
                self._is_in_string = not self._is_in_string
            elif mark == b"\\":
                self._is_escaped = True
            elif mark in b"{[":
                if self._depth == OUTER_LEVELS:
                    self._keep(data[kept : found.start()])
                    kept = found.start()
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == OUTER_LEVELS:
                    self._depth += 1  # the closing bracket belongs to the request
                    self._keep(data[kept:position])
                    self._depth -= 1
                    kept = position
                    yield self._end_request()
                elif self._depth < 0:
                    raise _not_json("a bracket closes that was not opened")
        self._keep(data[kept:])

    def finish(self) -> dict[str, Any]:
        """Return the body's other fields. Raises `ApiError` unless the body is an object with a list of requests."""
        if self._depth or self._is_in_string:
            raise _not_json("it ends in the middle")
        try:
            outer = orjson.loads(bytes(self._outer))
        except orjson.JSONDecodeError as error:
            raise _not_json(str(error)) from None
        found = outer.pop("requests", None) if isinstance(outer, dict) else None
        if found is None:
            raise invalid("requests is missing", "requests", "missing_required_parameter")
        if not isinstance(found, list) or found != [0] * self.num_requests:
            raise invalid("requests is not a list of objects, or another field has lists of objects", "requests")
        if not found:
            raise invalid("requests is empty", "requests")
        others: dict[str, Any] = outer
        return others

    def _keep(self, data: bytes) -> None:
        if self._depth > OUTER_LEVELS:
            self._request += data
            if len(self._request) > self._max_request_bytes:
                param = f"requests[{self.num_requests}]"
                raise invalid(f"{param} has more than {self._max_request_bytes:,} bytes", param, "request_too_large")
            return
        self._outer += data
        limit = OUTER_BYTES + OUTER_BYTES_EACH * self.num_requests
        if len(self._outer) > limit:
            raise invalid(f"the body has more than {limit:,} bytes beside its {self.num_requests:,} requests")

    def _end_request(self) -> bytes:
        if self.num_requests >= self._max_requests:
            message = f"the batch has more than {self._max_requests:,} requests, which is the limit of one batch"
            raise invalid(message, "requests", "too_many_requests")
        self.num_requests += 1
        self._outer += b"0"
        made = bytes(self._request)
        self._request.clear()
        return made


def _not_json(cause: str) -> ApiError:
    return invalid(f"the body is not JSON: {cause}", code="invalid_json")
