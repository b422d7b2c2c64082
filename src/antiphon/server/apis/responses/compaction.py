"""A compaction item: a summary of what came first, and the newest items as they were. Opaque to clients."""

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
#: Items that are kept as they were.
MAX_KEPT = 1024


@dataclass(frozen=True)
class Summary:
    """Text in place of the items that it sums up."""

    text: str


def packed(summary: str, kept: Iterable[PlainItem]) -> str:
    """The content of a compaction item. It is encoded, not encrypted: it has nothing that its client did not send."""
    items = [item.model_dump(exclude_none=True) for item in kept]
    return base64.b64encode(orjson.dumps({"version": VERSION, "summary": summary, "kept": items})).decode()


async def unpack(items: Iterable[Item], max_kept: int | None = MAX_KEPT) -> None:
    """Unpack the compaction items among the items, in a thread. Rejects those that are not ours."""
    num_kept = 0
    for item in items:
        if isinstance(item, CompactionItem):
            num_kept += len((await asyncio.to_thread(unpacked, item))[1])
            if max_kept is not None and num_kept > max_kept:
                message = f"compaction items contain {num_kept:,} items; at most {max_kept:,} are allowed"
                raise invalid(message, "input", "invalid_compaction")


def unpacked(item: CompactionItem) -> tuple[str, list[PlainItem]]:
    """The summary and the items in a compaction item. Blocking the first time, for as long as a body of its size."""
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
    for start in range(0, len(kept), STEP):  # other threads run in between
        items += PLAIN_ITEMS.validate_python(kept[start : start + STEP])
    return summary, items


def expanded(items: Iterable[Item]) -> Iterator[PlainItem | Summary]:
    """The items, with what compaction items contain in their place."""
    for item in items:
        if isinstance(item, CompactionItem):
            summary, kept = unpacked(item)
            if summary:
                yield Summary(summary)
            yield from kept
        else:
            yield item
