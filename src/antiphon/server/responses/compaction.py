"""A compaction item: a summary of what came first, and the newest items as they were. Opaque to clients."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson
from pydantic import ValidationError

from antiphon.server.http.errors import invalid
from antiphon.server.responses.request_schemas import PLAIN_ITEMS, CompactionItem, Item, PlainItem

VERSION = 1


@dataclass(frozen=True)
class Summary:
    """Text in place of the items that it sums up."""

    text: str


def packed(summary: str, kept: Iterable[PlainItem]) -> str:
    """The content of a compaction item. It is encoded, not encrypted: it has nothing that its client did not send."""
    items = [item.model_dump(exclude_none=True) for item in kept]
    return base64.b64encode(orjson.dumps({"version": VERSION, "summary": summary, "kept": items})).decode()


def unpacked(item: CompactionItem) -> tuple[Summary, list[PlainItem]]:
    try:
        content = orjson.loads(base64.b64decode(item.encrypted_content, validate=True))
        if content["version"] != VERSION or not isinstance(content["summary"], str):
            raise ValueError
        kept = PLAIN_ITEMS.validate_python(content["kept"])
    except (binascii.Error, ValueError, KeyError, TypeError, ValidationError):
        message = "a compaction item has content that this server did not make"
        raise invalid(message, "input", "invalid_compaction") from None
    return Summary(content["summary"]), kept


def expanded(items: Iterable[Item]) -> Iterator[PlainItem | Summary]:
    """The items, with what compaction items contain in their place."""
    for item in items:
        if isinstance(item, CompactionItem):
            summary, kept = unpacked(item)
            if summary.text:
                yield summary
            yield from kept
        else:
            yield item
