"""`BoundedStore` against a plain list, by random use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from antiphon.server.serving.bounded_store import BoundedStore

ACTS = some.lists(some.tuples(some.integers(0, 7), some.integers(0, 3), some.integers(0, 60), some.booleans()))


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
                model.pop(0)
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


def test_lists_are_in_the_order_of_creation() -> None:
    store: BoundedStore[str] = BoundedStore(3, 100)
    for name in "abc":
        store.put(name, None, name, 1)
    store.get("a", None)
    store.put("b", None, "B", 2)
    assert store.of_owner(None) == ["a", "B", "c"]
    assert not store.put("c", None, "c", 101) and store.of_owner(None) == ["a", "B"]
