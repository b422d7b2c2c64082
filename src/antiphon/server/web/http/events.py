"""Server-sent events."""

from __future__ import annotations

from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"


def event(content: Any) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"


def named_event(name: str, content: Any) -> bytes:
    return b"event: " + name.encode() + b"\n" + event(content)
