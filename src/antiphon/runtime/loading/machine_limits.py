"""Limits of a machine's bandwidth and arithmetic, given or measured."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.errors import UnsupportedError
from antiphon.ops import Device
from antiphon.ops.program.profile import MachineLimits


@dataclass(frozen=True)
class GivenLimits:
    """Limits given by a caller; None is measured."""

    bytes_per_second: float | None = None
    macs_per_second: float | None = None
    int8_macs_per_second: float = 0.0

    def known(self) -> MachineLimits | None:
        """Return the limits, or None if something needs to be measured."""
        if self.bytes_per_second is None or self.macs_per_second is None:
            return None
        return MachineLimits(self.bytes_per_second, self.macs_per_second, self.int8_macs_per_second)

    def completed(self, measured: MachineLimits) -> MachineLimits:
        """Return the limits, completed by measured ones."""
        if self.macs_per_second is None:
            rates = measured.macs_per_second, measured.int8_macs_per_second
        else:
            rates = self.macs_per_second, self.int8_macs_per_second
        return MachineLimits(self.bytes_per_second or measured.bytes_per_second, *rates)


def processor_limits(given: GivenLimits, weight_bytes: int) -> MachineLimits:
    """Return this processor's limits for a program that reads `weight_bytes`."""
    from antiphon.ops.native.program.limits import measure_limits

    return given.known() or given.completed(measure_limits(weight_bytes))


def card_limits(given: GivenLimits, device: Device) -> MachineLimits:
    """Return a GPU's limits. A device without its own clock cannot be measured."""
    known = given.known()
    if known is not None:
        return known
    if device.stream is None:
        raise UnsupportedError(f"the limits of {device.name} are not measured: give --bandwidth and --compute")
    from antiphon.ops.triton.program.limits import measure_card

    return given.completed(measure_card(device.torch))
