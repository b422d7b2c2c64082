"""Request arrivals: when other requests end (`concurrency`), or at random times (`request_rate`)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from antiphon.errors import InvalidRequestError


@dataclass(frozen=True)
class Arrivals:
    """Arrival settings; exactly one of concurrency and request rate is set.

    A `burstiness` of 1 is a Poisson process; below 1 requests come in bursts, above 1 more evenly.
    """

    concurrency: int | None = None
    request_rate: float | None = None
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.request_rate is None):
            raise InvalidRequestError("give a request rate or a concurrency, not both and not neither")
        if self.concurrency is not None and self.concurrency < 1:
            raise InvalidRequestError(f"the concurrency is {self.concurrency}; it must be 1 or more")
        if self.request_rate is not None and not 0 < self.request_rate < float("inf"):
            raise InvalidRequestError(f"the request rate is {self.request_rate:g}; it must be above 0")
        if not 0 < self.burstiness < float("inf"):
            raise InvalidRequestError(f"the burstiness is {self.burstiness:g}; it must be above 0")
        if self.concurrency is not None and self.burstiness != 1.0:
            raise InvalidRequestError("burstiness goes with a request rate")

    def times(self, count: int, seed: int) -> list[float]:
        """Return when each request is due, in seconds after the start; gaps are gamma distributed around 1/rate."""
        assert self.request_rate is not None
        source = random.Random(f"arrivals {seed}")
        scale = 1.0 / (self.request_rate * self.burstiness)
        times, now = [], 0.0
        for _ in range(count):
            times.append(now)
            now += source.gammavariate(self.burstiness, scale)
        return times

    def load(self) -> dict[str, float]:
        """Return the concurrency or the request rate, under its name."""
        if self.concurrency is not None:
            return {"concurrency": self.concurrency}
        assert self.request_rate is not None
        return {"request_rate": self.request_rate}

    def __str__(self) -> str:
        if self.concurrency is not None:
            return f"{self.concurrency} at a time"
        burst = "" if self.burstiness == 1.0 else f", burstiness {self.burstiness:g}"
        return f"{self.request_rate:g} a second{burst}"
