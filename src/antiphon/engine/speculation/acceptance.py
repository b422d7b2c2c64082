"""`Acceptance`: acceptance rates of drafted tokens, by kind of draft."""

from __future__ import annotations

from bisect import bisect_left

#: Upper bounds of the match lengths that are counted together; longer matches are one more kind.
MATCH_LENGTHS = (1, 2, 3, 5, 8, 16)
#: Kind of tokens that a grammar forces.
FORCED = len(MATCH_LENGTHS) + 1
#: Kind of tokens that a draft model has drafted.
DRAWN = FORCED + 1
#: Matches that resume near the position where a long match broke off are more reliable: up to these lengths, they are
#: kinds of their own, numbered from RETURNED.
RETURNED_LENGTHS = (1, 2, 3, 5)
RETURNED = DRAWN + 1
#: Assumed acceptance rate of each kind before any observation.
FIRST_PROBABILITIES = (0.5, 0.3, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95, 0.7, 0.5, 0.6, 0.7, 0.8)
#: Weight, in observations, of the model's rate in a request's estimate.
PRIOR_WEIGHT = 4.0
#: Per-observation decay of older observations: an answer changes its subject faster than a model its users.
REQUEST_FORGETTING, MODEL_FORGETTING = 0.95, 0.995


def kind_of(match_length: int, has_returned: bool) -> int:
    """Return the kind of a token that follows a match of this length, which may have resumed after a long match."""
    if has_returned and match_length <= RETURNED_LENGTHS[-1]:
        return RETURNED + bisect_left(RETURNED_LENGTHS, match_length)
    return bisect_left(MATCH_LENGTHS, match_length)


class Acceptance:
    """Acceptance counts of one request, or of all requests of a model, which are the prior of each new request."""

    def __init__(self, model: Acceptance | None = None) -> None:
        self._model = model
        self._tried = [0.0] * len(FIRST_PROBABILITIES)
        self._hit = [0.0] * len(FIRST_PROBABILITIES)

    def observe(self, kind: int, is_hit: bool) -> None:
        """Count a token of this kind that was expected next, and whether it was sampled."""
        fading = MODEL_FORGETTING if self._model is None else REQUEST_FORGETTING
        self._tried[kind] = self._tried[kind] * fading + 1.0
        self._hit[kind] = self._hit[kind] * fading + is_hit
        if self._model is not None:
            self._model.observe(kind, is_hit)

    def probability(self, kind: int) -> float:
        """Return the probability that a drafted token of this kind is the one that is sampled."""
        prior = FIRST_PROBABILITIES[kind] if self._model is None else self._model.probability(kind)
        return (self._hit[kind] + PRIOR_WEIGHT * prior) / (self._tried[kind] + PRIOR_WEIGHT)
