"""Service level objectives: the latencies that a request must meet to count as good."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from antiphon.errors import InvalidRequestError

MEASURES = ("ttft", "tpot", "e2e")


@dataclass(frozen=True)
class Objectives:
    """Maximum milliseconds of each measure."""

    limits: tuple[tuple[str, float], ...]

    @staticmethod
    def parse(text: str) -> Objectives:
        """Parse objectives such as `ttft:300,tpot:50,e2e:5000`, each measure at most once."""
        limits: dict[str, float] = {}
        for part in text.split(","):
            name, colon, number = part.strip().partition(":")
            try:
                limit = float(number)
            except ValueError:
                limit = math.nan
            if name not in MEASURES or not colon or not 0 < limit < math.inf or name in limits:
                raise InvalidRequestError(
                    f"--slo has {part.strip()!r}; it is written as ttft:300,tpot:50,e2e:5000 in milliseconds, each once"
                )
            limits[name] = limit
        return Objectives(tuple(limits.items()))

    def are_met(self, milliseconds: Mapping[str, float | None]) -> bool:
        """Return whether all limits are met; a missing measure (time per token of a single token) counts as met."""
        return all((milliseconds.get(name) or 0.0) <= limit for name, limit in self.limits)

    def __str__(self) -> str:
        return ", ".join(f"{name} ≤ {limit:g} ms" for name, limit in self.limits)
