"""Minimum cost of each launch of a decode step: bytes of weights, keys and values, and operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from antiphon.ops.program.instructions import PagedAttentionInstruction
from antiphon.ops.program.profile import MachineLimits
from antiphon.ops.program.recording import Recording
from antiphon.ops.triton.kernel_launch import Call, Launch

#: Name of the launches that read pages: one for each attention of the recording, in the same order.
ATTENTION = "attention"


@dataclass(frozen=True)
class LaunchCost:
    """Cost of one launch. Activations stay in the GPU's cache and are not counted, as in `program.floor`."""

    bytes: float = 0.0
    macs: float = 0.0

    def seconds(self, limits: MachineLimits) -> float:
        """Return the minimum time at these limits."""
        return max(self.bytes / limits.bytes_per_second, self.macs / limits.macs_per_second)


def launch_costs(
    recording: Recording, launches: Iterable[Launch | Call], rows: int, context: int
) -> Iterator[LaunchCost]:
    """Yield the cost of each launch of a step with one new token for each of `rows` sequences of `context` tokens."""
    attentions = (i for i in recording.instructions if isinstance(i, PagedAttentionInstruction))
    for launch in launches:
        if launch.name == ATTENTION:
            attention = next(attentions)
            keys = rows * min(context + 1, attention.window or context + 1)
            yield LaunchCost(keys * attention.bytes_per_key(), keys * attention.macs_per_pair())
        elif launch.weight_bytes:
            yield LaunchCost(launch.weight_bytes, rows * _elements(launch))
        else:
            yield LaunchCost()


def _elements(launch: Launch | Call) -> int:
    """Return the number of elements of the matrix in a product."""
    if isinstance(launch, Launch):
        return int(launch.constants["K"] * launch.constants["N"] * (2 if launch.constants["GATED"] else 1))
    x, *_, out = launch.arguments
    return int(x.shape[-1] * out.shape[-1])
