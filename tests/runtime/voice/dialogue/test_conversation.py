"""The order of items."""

from __future__ import annotations

import random

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.runtime.voice.dialogue.conversation import ROOT, Conversation
from antiphon.runtime.voice.items import Message, Role, TextPart


def note(item_id: str, text: str = "") -> Message:
    return Message(item_id, Role.USER, (TextPart(text),))


def test_random_edits_equal_those_of_a_list() -> None:
    rng = random.Random(0)
    conversation, ids = Conversation(), list[str]()
    for number in range(500):
        version = conversation.version
        if ids and rng.random() < 0.4:
            gone = rng.choice(ids)
            ids.remove(gone)
            assert conversation.remove(gone) and not conversation.remove(gone)
        else:
            previous = rng.choice([None, ROOT, *ids])
            index = len(ids) if previous is None else 0 if previous == ROOT else ids.index(previous) + 1
            ids.insert(index, f"item_{number}")
            conversation.add(note(f"item_{number}"), previous)
        assert [item.id for item in conversation.items] == ids
        assert conversation.version > version
        assert conversation.last_id == (ids[-1] if ids else None)
        for index, item_id in enumerate(ids):
            assert conversation.previous_id(item_id) == (ids[index - 1] if index else None)


def test_replacing() -> None:
    conversation = Conversation()
    conversation.add(note("a", "before"))
    version = conversation.version
    conversation.replace(note("a", "after"))
    assert conversation.items == (note("a", "after"),) and conversation.version == version
    conversation.replace(note("a", "less"), is_change=True)
    assert conversation.version > version
    conversation.replace(note("b"))  # was deleted
    assert len(conversation.items) == 1


def test_unknown_neighbours() -> None:
    conversation = Conversation()
    conversation.add(note("a"))
    with pytest.raises(InvalidRequestError, match="'a'"):
        conversation.add(note("a"))
    with pytest.raises(InvalidRequestError, match="'nothing'"):
        conversation.add(note("b"), "nothing")
    assert [item.id for item in conversation.items] == ["a"]
