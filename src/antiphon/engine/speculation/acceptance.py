"""`Acceptance`: how often a drafted token was the one that was drawn, by how well the draft was founded."""

from __future__ import annotations

from bisect import bisect_left

#: Matches up to these lengths are counted together; longer ones are one more kind.
MATCH_LENGTHS = (1, 2, 3, 5, 8, 16)
#: The kind of tokens that a grammar leaves no choice of.
FORCED = len(MATCH_LENGTHS) + 1
#: The kind of tokens that a draft model has drawn.
DRAWN = FORCED + 1
#: Matches that go on near the position where a long one was left are better founded: up to these lengths they are
#: kinds of their own, the first of which is this one.
RETURNED_LENGTHS = (1, 2, 3, 5)
RETURNED = DRAWN + 1
#: Before anything is known.
FIRST_PROBABILITIES = (0.5, 0.3, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95, 0.7, 0.5, 0.6, 0.7, 0.8)
#: How many observations what is known of all requests is worth beside those of one.
PRIOR_WEIGHT = 4.0
#: Older observations fade at these rates: an answer changes its subject faster than a model its users.
REQUEST_FORGETTING, MODEL_FORGETTING = 0.95, 0.995


def kind_of(match_length: int, has_returned: bool) -> int:
    """The kind of a token that follows a match of this length, which may go on near where a long one was left."""
    if has_returned and match_length <= RETURNED_LENGTHS[-1]:
        return RETURNED + bisect_left(RETURNED_LENGTHS, match_length)
    return bisect_left(MATCH_LENGTHS, match_length)


class Acceptance:
    """Counts for one request, or for all of a model: those of the model are what a new request is expected to have."""

    def __init__(self, model: Acceptance | None = None) -> None:
        self._model = model
        self._tried = [0.0] * len(FIRST_PROBABILITIES)
        self._hit = [0.0] * len(FIRST_PROBABILITIES)

    def observe(self, kind: int, is_hit: bool) -> None:
        """A token of this kind was drafted, or would have been, and was drawn or not."""
        fading = MODEL_FORGETTING if self._model is None else REQUEST_FORGETTING
        self._tried[kind] = self._tried[kind] * fading + 1.0
        self._hit[kind] = self._hit[kind] * fading + is_hit
        if self._model is not None:
            self._model.observe(kind, is_hit)

    def probability(self, kind: int) -> float:
        """That a drafted token of this kind is the one that is drawn."""
        prior = FIRST_PROBABILITIES[kind] if self._model is None else self._model.probability(kind)
        return (self._hit[kind] + PRIOR_WEIGHT * prior) / (self._tried[kind] + PRIOR_WEIGHT)
