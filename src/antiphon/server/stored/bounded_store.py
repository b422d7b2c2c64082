"""`BoundedStore`: objects in memory, each owned by an API key, with limits on their number and bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass
class _Entry(Generic[Value]):
    value: Value
    owner: int | None
    size: int
    number: int


@dataclass
class _Share(Generic[Value]):
    """Objects of one owner, the least recently used first."""

    entries: OrderedDict[str, _Entry[Value]] = field(default_factory=OrderedDict)
    num_bytes: int = 0


class BoundedStore(Generic[Value]):
    """Objects by id and owner. When full, it removes the least recently used object of the owner that holds the most.

    So no owner can displace another's objects beyond an equal share. An object is not found with another owner's key.
    For one event loop.
    """

    def __init__(self, max_objects: int, max_bytes: int) -> None:
        self.max_objects = max_objects
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._entries: dict[str, _Entry[Value]] = {}
        self._shares: dict[int | None, _Share[Value]] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, object_id: str, owner: int | None, value: Value, size: int) -> bool:
        """Store an object, replacing one with the same id. Return False if the object alone exceeds the limits."""
        earlier = self._entries.get(object_id)
        if earlier is not None:
            self._drop(object_id)
        if size > self.max_bytes or not self.max_objects:
            return False
        number = next(self._numbers) if earlier is None else earlier.number
        share = self._shares.setdefault(owner, _Share())
        self._entries[object_id] = share.entries[object_id] = _Entry(value, owner, size, number)
        share.num_bytes += size
        self.num_bytes += size
        while len(self) > self.max_objects or self.num_bytes > self.max_bytes:
            self._drop(self._surplus(object_id, share))
        return True

    def get(self, object_id: str, owner: int | None) -> Value | None:
        entry = self._entries.get(object_id)
        if entry is None or entry.owner != owner:
            return None
        self._shares[owner].entries.move_to_end(object_id)
        return entry.value

    def remove(self, object_id: str, owner: int | None) -> bool:
        """Remove an owner's object. Return False if the owner has no such object."""
        if self.get(object_id, owner) is None:
            return False
        self._drop(object_id)
        return True

    def of_owner(self, owner: int | None) -> list[Value]:
        """Return the owner's objects in order of creation."""
        own = self._shares[owner].entries.values() if owner in self._shares else ()
        return [entry.value for entry in sorted(own, key=lambda entry: entry.number)]

    def _surplus(self, new_id: str, own: _Share[Value]) -> str:
        """Return the id of the object to remove: not the new one, and among equal shares one of the new one's owner."""
        is_by_number = len(self) > self.max_objects

        def held(share: _Share[Value]) -> tuple[int, bool]:
            return len(share.entries) if is_by_number else share.num_bytes, share is own

        others = [share for share in self._shares.values() if share is not own or len(own.entries) > 1]
        largest = max(others, key=held)
        return next(object_id for object_id in largest.entries if object_id != new_id)

    def _drop(self, object_id: str) -> None:
        entry = self._entries.pop(object_id)
        share = self._shares[entry.owner]
        del share.entries[object_id]
        share.num_bytes -= entry.size
        self.num_bytes -= entry.size
        if not share.entries:
            del self._shares[entry.owner]
