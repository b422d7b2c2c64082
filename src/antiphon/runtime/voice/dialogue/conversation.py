"""`Conversation`: the items of a session, in order."""

from __future__ import annotations

from antiphon.errors import InvalidRequestError
from antiphon.runtime.voice.items import Item

#: Item id for the position before the first item.
ROOT = "root"


class Conversation:
    """Items in order. `version` changes when an item is added, removed or cut, which may change an answer.

    It does not change when a transcript becomes known, since answers wait for that.
    """

    def __init__(self) -> None:
        self.version = 0
        self._items: list[Item] = []

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(self._items)

    def get(self, item_id: str) -> Item | None:
        index = self._find(item_id)
        return None if index is None else self._items[index]

    def previous_id(self, item_id: str) -> str | None:
        """Return the id of the item before this one; None if this one is the first or does not exist."""
        index = self._find(item_id)
        return self._items[index - 1].id if index else None

    @property
    def last_id(self) -> str | None:
        return self._items[-1].id if self._items else None

    def add(self, item: Item, previous_id: str | None = None) -> None:
        """Insert an item after another, at the beginning for `ROOT`, at the end for None."""
        if self._find(item.id) is not None:
            raise InvalidRequestError(f"the conversation has an item {item.id!r} already")
        index = self._index_after(previous_id)
        self._items.insert(index, item)
        self.version += 1

    def _index_after(self, previous_id: str | None) -> int:
        if previous_id is None:
            return len(self._items)
        if previous_id == ROOT:
            return 0
        index = self._find(previous_id)
        if index is None:
            raise InvalidRequestError(f"the conversation has no item {previous_id!r}")
        return index + 1

    def replace(self, item: Item, *, is_change: bool = False) -> None:
        """Replace the item of the same id, unless it was deleted. With `is_change`, the version changes."""
        index = self._find(item.id)
        if index is not None:
            self._items[index] = item
            self.version += is_change

    def remove(self, item_id: str) -> bool:
        """Remove an item; return False if it does not exist."""
        index = self._find(item_id)
        if index is None:
            return False
        del self._items[index]
        self.version += 1
        return True

    def _find(self, item_id: str) -> int | None:
        """Return the index of an item. The search goes backwards, since clients nearly always name late items."""
        for index in range(len(self._items) - 1, -1, -1):
            if self._items[index].id == item_id:
                return index
        return None
