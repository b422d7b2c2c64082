"""Answers drawn at random under a grammar's masks, as the most absent-minded model would."""

from __future__ import annotations

import random

import numpy as np

from antiphon.text.grammar_constraint import GrammarConstraint
from antiphon.text.tokenizer import Tokenizer


def allowed(constraint: GrammarConstraint) -> list[int]:
    return np.flatnonzero(np.unpackbits(constraint.mask().view(np.uint8), bitorder="little")).tolist()


def closers(tokenizer: Tokenizer) -> frozenset[int]:
    """Tokens that close something: without a leaning to them a random answer hardly ever ends."""
    ends = (b'"', b"}", b"]", b",", b":")
    ids = (token_id for token_id in range(tokenizer.vocab_size) if tokenizer.token_bytes(token_id).startswith(ends))
    return frozenset(ids) | tokenizer.eos_ids


def random_answer(
    constraint: GrammarConstraint, tokenizer: Tokenizer, source: random.Random, max_tokens: int = 400
) -> str | None:
    """The text of a finished answer, or None if it had not ended after `max_tokens`."""
    leaning = closers(tokenizer)
    tokens: list[int] = []
    while len(tokens) < max_tokens:
        choices = allowed(constraint)
        assert choices, "an empty mask"
        closing = [token for token in choices if token in leaning]
        token = source.choice(closing if closing and source.random() < 0.5 else choices)
        constraint.advance(token)
        if token in tokenizer.eos_ids:
            assert constraint.is_stopped
            return b"".join(map(tokenizer.token_bytes, tokens)).decode()
        tokens.append(token)
    return None
