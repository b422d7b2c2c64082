"""`SamplingParams`: how a request's tokens are chosen and when it ends."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.errors import InvalidRequestError


@dataclass(frozen=True)
class SamplingParams:
    """Checked on creation, so a params object is always usable. A temperature of 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        checks = (
            (0 <= self.temperature <= 100, "temperature", self.temperature, "between 0 and 100"),
            (self.top_k >= 0, "top_k", self.top_k, "0 (off) or more"),
            (0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1"),
            (0 <= self.min_p <= 1, "min_p", self.min_p, "between 0 and 1"),
            (-(2**63) <= self.seed < 2**63, "seed", self.seed, "a 64-bit integer"),
            (self.max_tokens >= 1, "max_tokens", self.max_tokens, "1 or more"),
            (all(self.stop), "stop", self.stop, "non-empty strings"),
        )
        for holds, name, value, wanted in checks:
            if not holds:
                raise InvalidRequestError(f"{name} is {value!r}; it must be {wanted}")
