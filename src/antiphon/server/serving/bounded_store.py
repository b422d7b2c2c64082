"""`BoundedStore`: objects in memory, each owned by an API key, bounded by number and by bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass
class _Entry(Generic[Value]):
    value: Value
    owner: int | None
    size: int
    number: int


class BoundedStore(Generic[Value]):
    """The least recently used object is removed first. With another key than its owner an object is not found.

    For one event loop.
    """

    def __init__(self, max_objects: int, max_bytes: int) -> None:
        self.max_objects = max_objects
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._entries: OrderedDict[str, _Entry[Value]] = OrderedDict()
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, object_id: str, owner: int | None, value: Value, size: int) -> bool:
        """Keep the object, in place of an earlier one of this id; False if it is larger than the whole store."""
        earlier = self._entries.pop(object_id, None)
        if earlier is not None:
            self.num_bytes -= earlier.size
        if size > self.max_bytes:
            return False
        number = next(self._numbers) if earlier is None else earlier.number
        self._entries[object_id] = _Entry(value, owner, size, number)
        self.num_bytes += size
        while len(self._entries) > self.max_objects or self.num_bytes > self.max_bytes:
            _, removed = self._entries.popitem(last=False)
            self.num_bytes -= removed.size
        return object_id in self._entries

    def get(self, object_id: str, owner: int | None) -> Value | None:
        entry = self._entries.get(object_id)
        if entry is None or entry.owner != owner:
            return None
        self._entries.move_to_end(object_id)
        return entry.value

    def remove(self, object_id: str, owner: int | None) -> bool:
        """False if there is none."""
        if self.get(object_id, owner) is None:
            return False
        self.num_bytes -= self._entries.pop(object_id).size
        return True

    def of_owner(self, owner: int | None) -> list[Value]:
        """In the order of their creation."""
        own = [entry for entry in self._entries.values() if entry.owner == owner]
        return [entry.value for entry in sorted(own, key=lambda entry: entry.number)]
