"""Whether a draft model pays, and how many tokens it should draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Tokens that a draft model drafts for a request at most.
MOST_PASSES = 8
#: How much faster the requests must be expected to become.
MARGIN = 1.03
#: A model that has to catch up must pay for that within so many tokens.
HORIZON = 256


@dataclass(frozen=True, slots=True)
class DraftCandidate:
    """A request that a draft model may draft for."""

    tokens: float  # that it is expected to get from a step without the draft model
    rows: int  # drafted tokens that it computes for these
    probability: float  # that a token of the draft model is its own
    num_behind: int  # tokens that the draft model has not seen
    num_left: int  # tokens that it may still draw


@dataclass(frozen=True, slots=True)
class DraftingCosts:
    """Times as parts of a step that verifies no draft."""

    row: float  # a drafted token that is verified
    drafting: float  # a pass of the draft model
    prompt: float  # a token that it catches up on


def expected_tokens(probability: float, passes: int) -> float:
    """Tokens that a step gives which verifies so many drafted ones."""
    return 1.0 + sum(probability**length for length in range(1, passes + 1))


@dataclass(frozen=True, slots=True)
class Passes:
    """How many tokens a draft model should draft, and the indexes of the candidates that it should draft for."""

    count: int
    indexes: list[int]
    seconds: float  # for each token of the step, as a part of a step that verifies no draft


def best_passes(candidates: Sequence[DraftCandidate], others: int, costs: DraftingCosts) -> Passes:
    """The passes with which the step's tokens come fastest.

    `others` are requests of the step that get one token. There are none if they would not make the tokens come faster,
    or not so much that what the model has to catch up on is paid for.
    """
    tokens = others + sum(one.tokens for one in candidates)
    plain = (1.0 + costs.row * sum(one.rows for one in candidates)) / tokens
    best, found, indexes = plain / MARGIN, 0, list[int]()
    for passes in range(1, MOST_PASSES + 1):
        gains = [expected_tokens(one.probability, passes) - one.tokens for one in candidates]
        chosen = [index for index, gain in enumerate(gains) if gain > 0.0]
        rows = sum(passes if gain > 0.0 else one.rows for one, gain in zip(candidates, gains, strict=True))
        time = 1.0 + costs.row * rows + costs.drafting * passes
        seconds = time / (tokens + sum(gains[index] for index in chosen))
        if chosen and seconds < best:
            best, found, indexes = seconds, passes, chosen
    saved = (plain - best) * sum(min(candidates[index].num_left, HORIZON) for index in indexes)
    if costs.prompt * sum(candidates[index].num_behind - 1 for index in indexes) > saved:
        return Passes(0, [], plain)
    return Passes(found, indexes, best if found else plain)
