"""The index of n-grams against a search through the whole text."""

from __future__ import annotations

import random

import pytest

from antiphon.engine.speculation.ngrams import (
    GUESS_LENGTH,
    LONGEST,
    MOST_POSITIONS,
    NOWHERE,
    RETURN_TOKENS,
    RETURNED_LENGTH,
    SHORTEST,
    NgramIndex,
)


def searched(text: list[int], tail: list[int]) -> tuple[int, int]:
    """The position after the longest earlier match of the tail among the newest few; the newest of equal ones."""
    ends = [end for end in range(len(text) - 1, SHORTEST - 1, -1) if text[end - SHORTEST : end] == tail[-SHORTEST:]]
    best = NOWHERE, 0
    for end in ends[:MOST_POSITIONS]:
        length = SHORTEST
        while length < min(LONGEST, end, len(tail)) and text[end - 1 - length] == tail[-1 - length]:
            length += 1
        if length > best[1]:
            best = end, length
    return best


@pytest.mark.parametrize("seed", range(20))
def test_positions_are_those_of_a_search(seed: int) -> None:
    source = random.Random(seed)
    alphabet = source.choice([2, 3, 8, 40])
    text = [source.randrange(alphabet) for _ in range(source.randrange(1, 40))]
    index = NgramIndex(text)
    followed = NOWHERE, 0  # a match that goes on is kept even where a newer one is as long
    for _ in range(120):
        position, length = index.position, index.length
        if followed[0] != NOWHERE:
            assert (position, length) == followed
        elif length == RETURNED_LENGTH:
            assert searched(text, text) == (NOWHERE, 0) and text[position - 1] == text[-1]
        else:
            assert (position, length) == searched(text, text)
        tokens, told = index.follow(5)
        assert tokens == (text[position : position + 5] if position != NOWHERE else []) and told == (
            length if tokens else 0
        )
        token = source.randrange(alphabet) if source.random() < 0.5 or not tokens else tokens[0]
        followed = (position + 1, length + 1) if tokens and token == tokens[0] else (NOWHERE, 0)
        text.append(token)
        index.append(token)


def test_a_guess_is_followed_from_its_beginning_and_found_again() -> None:
    guess = [11, 12, 13, 14, 15, 16, 17, 18]
    index = NgramIndex([1, 2, 3], guess)
    assert index.follow(16) == (guess, GUESS_LENGTH)
    for token in (11, 12, 99, 14, 15):
        index.append(token)
    assert index.follow(16)[0] == [16, 17, 18], "the end of the guess, and nothing of the prompt behind it"


def test_tokens_ahead_of_the_text_are_followed() -> None:
    index = NgramIndex([1, 2, 3, 4, 5, 6, 7, 1, 2])
    assert index.follow(3) == ([3, 4, 5], 2)
    assert index.follow(3, ahead=[3, 4]) == ([5, 6, 7], 4)
    assert index.follow(3, ahead=[5, 6]) == ([7, 1, 2], 2)
    assert index.follow(3, ahead=[8]) == ([], 0)


def test_nothing_follows_what_never_stood_before() -> None:
    for text in ([], [1], [1, 2], [1, 2, 3]):
        assert NgramIndex(text).follow(4) == ([], 0)


def test_a_long_match_goes_on_behind_a_word_that_was_replaced() -> None:
    source = list(range(1, 21))
    index = NgramIndex([*source, 50, 1, 2, 3, 4, 5, 6, 7])
    assert index.follow(3) == ([8, 9, 10], 7)
    index.append(60)
    assert index.follow(3) == ([], 0)
    index.append(9)
    assert index.follow(3) == ([10, 11, 12], RETURNED_LENGTH)
    index.append(10)
    assert index.follow(2) == ([11, 12], RETURNED_LENGTH + 1)


def test_a_match_that_was_left_is_forgotten() -> None:
    index = NgramIndex([*range(1, 21), 50, 1, 2, 3, 4, 5, 6, 7])
    for token in range(60, 60 + RETURN_TOKENS):
        index.append(token)
    index.append(9)
    assert index.follow(3) == ([], 0)
