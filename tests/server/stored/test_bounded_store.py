"""`BoundedStore` against a plain list, by random use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from antiphon.server.stored.bounded_store import BoundedStore

# Two owners: with more, which of two equal shares loses an object is not defined.
ACTS = some.lists(some.tuples(some.integers(0, 7), some.integers(0, 1), some.integers(0, 60), some.booleans()))


def surplus(model: list[tuple[str, int, int]]) -> tuple[str, int, int]:
    """The oldest of the owner that holds the most; never the one that was just put, which is the last."""

    def held(owner: int) -> tuple[int, bool]:
        own = [entry[2] for entry in model if entry[1] == owner]
        return len(own) if len(model) > 4 else sum(own), owner == model[-1][1]

    largest = max({entry[1] for entry in model[:-1]}, key=held)
    return next(entry for entry in model if entry[1] == largest)


@given(ACTS)
def test_it_keeps_what_was_used_last(acts: list[tuple[int, int, int, bool]]) -> None:
    store: BoundedStore[int] = BoundedStore(4, 100)
    model: list[tuple[str, int, int]] = []  # id, owner, size; the least recently used first
    for number, owner, size, puts in acts:
        name = str(number)
        known = next((entry for entry in model if entry[0] == name), None)
        if puts:
            assert store.put(name, owner, number, size)
            model = [entry for entry in model if entry[0] != name] + [(name, owner, size)]
            while len(model) > 4 or sum(entry[2] for entry in model) > 100:
                model.remove(surplus(model))
        elif known is not None and known[1] == owner:
            assert store.get(name, owner) == number
            model = [entry for entry in model if entry is not known] + [known]
        else:
            assert store.get(name, owner) is None and not store.remove(name, owner)
        assert len(store) == len(model) and store.num_bytes == sum(entry[2] for entry in model)
    for name, owner, _ in model:
        assert int(name) in store.of_owner(owner)
        assert store.remove(name, owner)
    assert len(store) == store.num_bytes == 0


def test_an_owner_keeps_an_equal_share() -> None:
    store: BoundedStore[str] = BoundedStore(6, 600)
    for number in range(9):
        store.put(f"a{number}", 1, f"a{number}", 10)
    for number in range(9):
        store.put(f"b{number}", 2, f"b{number}", 10)
    assert store.of_owner(1) == ["a6", "a7", "a8"] and store.of_owner(2) == ["b6", "b7", "b8"]
    store.put("b9", 2, "b9", 300)  # by bytes
    store.put("b10", 2, "b10", 290)
    assert store.of_owner(1) == ["a6", "a7", "a8"] and store.of_owner(2) == ["b10"]
    store.put("c", 3, "c", 600)  # what fits the store is kept
    assert store.of_owner(3) == ["c"] and len(store) == 1
    none: BoundedStore[str] = BoundedStore(0, 600)
    assert not none.put("a", 1, "a", 1) and not len(none)


def test_lists_are_in_the_order_of_creation() -> None:
    store: BoundedStore[str] = BoundedStore(3, 100)
    for name in "abc":
        store.put(name, None, name, 1)
    store.get("a", None)
    store.put("b", None, "B", 2)
    assert store.of_owner(None) == ["a", "B", "c"]
    assert not store.put("c", None, "c", 101) and store.of_owner(None) == ["a", "B"]
