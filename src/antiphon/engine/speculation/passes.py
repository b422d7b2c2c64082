"""Choice of how many tokens a draft model drafts, if drafting pays at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Maximum tokens that a draft model drafts per request and step.
MOST_PASSES = 8
#: Minimum ratio of the token rates with and without drafting.
MARGIN = 1.03
#: Tokens within which drafting must pay for what the draft model has to catch up on.
HORIZON = 256


@dataclass(frozen=True, slots=True)
class DraftCandidate:
    tokens: float  # expected tokens of a step without the draft model
    rows: int  # drafted tokens that the step computes for these
    probability: float  # acceptance probability of a token of the draft model
    num_behind: int  # tokens that the draft model has not seen
    num_left: int  # tokens that the request may still generate


@dataclass(frozen=True, slots=True)
class DraftingCosts:
    """Times relative to a step that verifies no draft."""

    row: float  # verification of a drafted token
    drafting: float  # pass of the draft model
    prompt: float  # prefill token of the draft model


def expected_tokens(probability: float, passes: int) -> float:
    """Return the expected number of tokens of a step that verifies `passes` drafted tokens."""
    return 1.0 + sum(probability**length for length in range(1, passes + 1))


@dataclass(frozen=True, slots=True)
class Passes:
    """Number of tokens that a draft model should draft, and the indexes of the candidates to draft for."""

    count: int
    indexes: list[int]
    seconds: float  # time per token, as a fraction of a step that verifies no draft


def best_passes(candidates: Sequence[DraftCandidate], others: int, costs: DraftingCosts) -> Passes:
    """Return the number of passes with the highest token rate.

    `others` is the number of the step's other requests, which get one token each. The result has no passes if drafting
    is not faster by MARGIN, or does not pay within HORIZON tokens for what the draft model has to catch up on.
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
