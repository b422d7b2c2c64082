"""Random answers under a grammar's masks, as a model without any preference would generate them."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
from numpy.typing import NDArray

from antiphon.text.grammar_constraint import GrammarConstraint
from antiphon.text.tokenization.tokenizer import Tokenizer

CLOSING = (b'"', b"}", b"]", b",", b":")


def allowed(constraint: GrammarConstraint) -> list[int]:
    return _allowed(constraint).tolist()


def _allowed(constraint: GrammarConstraint) -> NDArray[np.intp]:
    return np.flatnonzero(np.unpackbits(constraint.mask().view(np.uint8), bitorder="little"))


@cache
def closers(tokenizer: Tokenizer) -> NDArray[np.intp]:
    """Return the ids of tokens that close something: a random answer that does not prefer them hardly ever ends."""
    ids = (token_id for token_id in range(tokenizer.vocab_size) if tokenizer.token_bytes(token_id).startswith(CLOSING))
    return np.array(sorted({*ids, *tokenizer.eos_ids}))


def random_answer(
    constraint: GrammarConstraint, tokenizer: Tokenizer, source: random.Random, max_tokens: int = 400
) -> str | None:
    """Return the text of a finished answer, or None if it has not ended after `max_tokens`."""
    tokens: list[int] = []
    while len(tokens) < max_tokens:
        choices = _allowed(constraint)
        assert len(choices), "an empty mask"
        closing = np.intersect1d(choices, closers(tokenizer), assume_unique=True)
        token = int(source.choice(closing if len(closing) and source.random() < 0.5 else choices))
        constraint.advance(token)
        if token in tokenizer.eos_ids:
            assert constraint.is_stopped
            return b"".join(map(tokenizer.token_bytes, tokens)).decode()
        tokens.append(token)
    return None
