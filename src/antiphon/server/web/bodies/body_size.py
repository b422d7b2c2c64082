"""Limits of request bodies: values, containers and depth of JSON before it is parsed, and bytes over all requests.

Parsing and validating hold the interpreter for a time that grows with the number of values, not with the bytes of text.
"""

from __future__ import annotations

from antiphon.server.web.http.errors import ApiError, invalid, unavailable

#: Maximum numbers, strings and names in one body: some 30 ms of parsing.
MAX_VALUES = 262_144
#: Maximum objects and lists in one body: some 50 ms of validating.
MAX_CONTAINERS = 32_768
#: Maximum field names in one body; each unknown one is a separate error.
MAX_NAMES = 65_536
MAX_DEPTH = 128
#: Maximum bytes of a body that is not counted in the total over all requests, so that short requests always pass.
SMALL_BYTES = 65_536


def check_structure(data: bytes) -> None:
    """Raise 400 for JSON with too many values or levels. Blocks for some milliseconds per megabyte."""
    openers = data.count(b"{") + data.count(b"[")
    if openers <= MAX_DEPTH and data.count(b",") <= min(MAX_VALUES, MAX_NAMES):
        return
    import numpy as np

    if b"\\" in data:  # an escaped quote does not end a string
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    codes = np.frombuffer(data, np.uint8)
    quotes = codes == ord('"')
    is_outside = np.bitwise_xor.accumulate(quotes) == 0
    codes = codes[is_outside]
    opens = (codes == ord("{")) | (codes == ord("["))
    closes = (codes == ord("}")) | (codes == ord("]"))
    num_containers = int(np.count_nonzero(opens))
    num_values = int(np.count_nonzero(codes == ord(","))) + num_containers
    if num_containers > MAX_CONTAINERS:
        raise _complex(f"{num_containers:,} objects and lists; at most {MAX_CONTAINERS:,} are allowed")
    num_names = int(np.count_nonzero(codes == ord(":")))
    if num_names > MAX_NAMES:
        raise _complex(f"{num_names:,} fields; at most {MAX_NAMES:,} are allowed")
    if num_values > MAX_VALUES:
        raise _complex(f"{num_values:,} values; at most {MAX_VALUES:,} are allowed")
    depth = np.cumsum(opens, dtype=np.int32) - np.cumsum(closes, dtype=np.int32)
    if len(depth) and int(depth.max()) > MAX_DEPTH:
        raise invalid(f"the body is nested {int(depth.max())} levels deep; at most {MAX_DEPTH} are allowed")


def _complex(what: str) -> ApiError:
    return invalid(f"the body has {what}", code="body_too_complex")


class BodyBudget:
    """Bytes of large bodies in flight, with a limit on their sum. For the server's event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def reserve(self, size: int) -> None:
        """Add `size` bytes, or raise a 503 with `Retry-After` if that exceeds the limit."""
        if self.held + size > self.limit:
            message = f"the bodies of other requests take {self.held:,} of {self.limit:,} bytes"
            raise unavailable(message, "memory_busy", 1)
        self.held += size

    def release(self, size: int) -> None:
        self.held -= size
