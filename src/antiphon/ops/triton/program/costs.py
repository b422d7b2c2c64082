"""What each launch of a decode step needs at least: bytes of weights, keys and values, and operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from antiphon.ops.program.instructions import PagedAttentionInstruction
from antiphon.ops.program.profile import MachineLimits
from antiphon.ops.program.recording import Recording
from antiphon.ops.triton.kernel_launch import Call, Launch

#: The name of the launches that read pages, one for each attention of the recording, in its order.
ATTENTION = "attention"


@dataclass(frozen=True)
class LaunchCost:
    """Of one launch. Activations stay in the card's cache and are not counted, as in `program.floor`."""

    bytes: float = 0.0
    macs: float = 0.0

    def seconds(self, limits: MachineLimits) -> float:
        """The least time at these limits."""
        return max(self.bytes / limits.bytes_per_second, self.macs / limits.macs_per_second)


def launch_costs(
    recording: Recording, launches: Iterable[Launch | Call], rows: int, context: int
) -> Iterator[LaunchCost]:
    """The cost of each launch of a step that gives each of `rows` sequences a token after `context` tokens."""
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
    """Of the matrix that a product multiplies by."""
    if isinstance(launch, Launch):
        return int(launch.constants["K"] * launch.constants["N"] * (2 if launch.constants["GATED"] else 1))
    x, *_, out = launch.arguments
    return int(x.shape[-1] * out.shape[-1])
