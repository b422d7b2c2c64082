"""How long a step will take: a linear model fitted online to the steps that were measured."""

from __future__ import annotations

from dataclasses import dataclass

#: Steps are forgotten at this rate, so that the model follows a machine whose speed changes.
FORGETTING = 0.98
#: Trusted from this many steps on.
MIN_STEPS = 8


@dataclass(frozen=True, slots=True)
class StepShape:
    """What a step's time depends on."""

    decodes: int  # requests that compute one token
    prefill_tokens: int  # tokens of requests farther behind
    context_tokens: int = 0  # cached tokens that attention reads, over all requests

    def features(self) -> tuple[float, float, float, float]:
        return (1.0, float(self.decodes), float(self.prefill_tokens), self.context_tokens / 1024.0)


class CostModel:
    """Seconds of a step ≈ w · features, by recursive least squares with forgetting; weights are kept from below 0."""

    def __init__(self) -> None:
        size = 4
        self.weights = [0.0] * size
        self._covariance = [[1e4 if i == j else 0.0 for j in range(size)] for i in range(size)]
        self.num_steps = 0

    @property
    def is_fitted(self) -> bool:
        return self.num_steps >= MIN_STEPS

    def observe(self, shape: StepShape, seconds: float) -> None:
        x, p = shape.features(), self._covariance
        px = [sum(row[j] * x[j] for j in range(4)) for row in p]
        denominator = FORGETTING + sum(x[i] * px[i] for i in range(4))
        gain = [value / denominator for value in px]
        error = seconds - sum(w * value for w, value in zip(self.weights, x, strict=True))
        self.weights = [max(0.0, w + g * error) for w, g in zip(self.weights, gain, strict=True)]
        for i in range(4):
            for j in range(4):
                p[i][j] = min((p[i][j] - gain[i] * px[j]) / FORGETTING, 1e6)
        self.num_steps += 1

    def predict(self, shape: StepShape) -> float:
        return sum(w * value for w, value in zip(self.weights, shape.features(), strict=True))

    def prefill_tokens_within(self, seconds: float, decodes: int, context_tokens: int, cap: int) -> int:
        """How many prefill tokens fit a step of this length beside the decodes; `cap` where tokens seem free."""
        spare = seconds - self.predict(StepShape(decodes, 0, context_tokens))
        per_token = self.weights[2]
        if per_token <= 0.0:
            return cap
        return max(0, min(cap, int(spare / per_token)))
