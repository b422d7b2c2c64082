"""Digests name whole prefixes, and keep models, users and other content apart."""

from __future__ import annotations

import pytest

from antiphon.engine.kv import manager
from antiphon.engine.kv.prefix import DIGEST_BYTES, chain, prefix_seed
from support.engine.engine_world import ModelSetup, World


def test_a_digest_depends_on_everything_before_it() -> None:
    seed = prefix_seed("model")
    assert len(seed) == DIGEST_BYTES
    assert chain(seed, [1, 2]) == chain(seed, (1, 2))
    assert chain(chain(seed, [1]), [2]) != chain(chain(seed, [3]), [2])
    assert len({prefix_seed("a", "b"), prefix_seed("ab"), prefix_seed("", "ab"), prefix_seed("a", "", b"b")}) == 4


def answers(setup: ModelSetup, salts: tuple[str, str] = ("", "")) -> list[int]:
    """Cached tokens of two requests with one prompt, one after the other."""
    world = World(16)
    world.add_model("m", setup)
    cached = []
    for salt in salts:
        request = world.add("m", list(range(21)), 3, cache_salt=salt)
        world.drain()
        cached.append(request.num_cached_tokens)
    world.check_outputs()
    return cached


def test_the_second_of_two_equal_prompts_hits() -> None:
    assert answers(ModelSetup()) == [0, 20]
    assert answers(ModelSetup(prefix_caching=False)) == [0, 0]


def test_another_salt_does_not_hit() -> None:
    assert answers(ModelSetup(), ("alice", "bob")) == [0, 0]
    assert answers(ModelSetup(), ("alice", "alice")) == [0, 20]


def test_a_second_turn_hits_what_was_generated_in_the_first() -> None:
    world = World(16)
    world.add_model("m", ModelSetup())
    first = world.add("m", list(range(10)), 10)
    world.drain()
    assert first.num_tokens == 20
    second = world.add("m", [*first.tokens, 1, 2, 3], 3)
    world.drain()
    assert second.num_cached_tokens == 16, "the last token of an answer is never computed"
    world.check_outputs()


def test_when_every_digest_collides_tokens_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "chain", lambda parent, tokens: bytes(DIGEST_BYTES))
    world = World(64)
    world.add_model("m", ModelSetup())
    for start in range(5):
        request = world.add("m", [start + index for index in range(17)], 6)
        world.drain()
        assert request.num_cached_tokens == 0
    world.check_outputs()
