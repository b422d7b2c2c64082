"""Compaction items: a summary of the older items, and the newest items unchanged. Opaque to clients."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from antiphon.server.apis.responses.request_schemas import PLAIN_ITEMS, CompactionItem, Item, PlainItem
from antiphon.server.web.bodies.body_size import check_structure
from antiphon.server.web.bodies.stepped_validation import STEP
from antiphon.server.web.http.errors import invalid

VERSION = 1
#: Maximum items that are kept unchanged.
MAX_KEPT = 1024


@dataclass(frozen=True)
class Summary:
    """Text that replaces the items it summarizes."""

    text: str


def packed(summary: str, kept: Iterable[PlainItem]) -> str:
    """Encode the content of a compaction item, which needs no encryption: the client knows all that it contains."""
    items = [item.model_dump(exclude_none=True) for item in kept]
    return base64.b64encode(orjson.dumps({"version": VERSION, "summary": summary, "kept": items})).decode()


async def unpack(items: Iterable[Item], max_kept: int | None = MAX_KEPT) -> None:
    """Unpack all compaction items, in a thread. Raises `ApiError` if this server did not make their content."""
    num_kept = 0
    for item in items:
        if isinstance(item, CompactionItem):
            num_kept += len((await asyncio.to_thread(unpacked, item))[1])
            if max_kept is not None and num_kept > max_kept:
                message = f"compaction items contain {num_kept:,} items; at most {max_kept:,} are allowed"
                raise invalid(message, "input", "invalid_compaction")


def unpacked(item: CompactionItem) -> tuple[str, list[PlainItem]]:
    """Return the summary and the kept items of a compaction item.

    Blocks the first time, for as long as parsing a request body of the same size takes.
    """
    if item.content is not None:
        return item.content
    try:
        data = base64.b64decode(item.encrypted_content, validate=True)
        check_structure(data)
        summary, kept = _read(orjson.loads(data))
    except (binascii.Error, ValueError, KeyError, TypeError, ValidationError):
        message = "a compaction item has content that this server did not make"
        raise invalid(message, "input", "invalid_compaction") from None
    item.set_content(summary, kept)
    return summary, kept


def _read(content: Any) -> tuple[str, list[PlainItem]]:
    summary, kept = content["summary"], content["kept"]
    if content["version"] != VERSION or not isinstance(summary, str) or not isinstance(kept, list):
        raise ValueError
    if len(kept) > MAX_KEPT:
        message = f"a compaction item contains {len(kept):,} items; at most {MAX_KEPT:,} are allowed"
        raise invalid(message, "input", "invalid_compaction")
    items: list[PlainItem] = []
    for start in range(0, len(kept), STEP):  # so that other threads run in between
        items += PLAIN_ITEMS.validate_python(kept[start : start + STEP])
    return summary, items


def expanded(items: Iterable[Item]) -> Iterator[PlainItem | Summary]:
    """Yield the items, replacing compaction items by their content."""
    for item in items:
        if isinstance(item, CompactionItem):
            summary, kept = unpacked(item)
            if summary:
                yield Summary(summary)
            yield from kept
        else:
            yield item
