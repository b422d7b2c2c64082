"""What a machine can do at best: as given, else as measured here."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.errors import UnsupportedError
from antiphon.ops import Device
from antiphon.ops.program.profile import MachineLimits


@dataclass(frozen=True)
class GivenLimits:
    """The limits that a caller gives; what is None is measured here."""

    bytes_per_second: float | None = None
    macs_per_second: float | None = None
    int8_macs_per_second: float = 0.0

    def known(self) -> MachineLimits | None:
        """The limits, if nothing needs to be measured."""
        if self.bytes_per_second is None or self.macs_per_second is None:
            return None
        return MachineLimits(self.bytes_per_second, self.macs_per_second, self.int8_macs_per_second)

    def completed(self, measured: MachineLimits) -> MachineLimits:
        """The limits, with measured ones in place of those that are not given."""
        if self.macs_per_second is None:
            rates = measured.macs_per_second, measured.int8_macs_per_second
        else:
            rates = self.macs_per_second, self.int8_macs_per_second
        return MachineLimits(self.bytes_per_second or measured.bytes_per_second, *rates)


def processor_limits(given: GivenLimits, weight_bytes: int) -> MachineLimits:
    """Of this processor, for a program that reads so many bytes of weights."""
    from antiphon.ops.native.program.limits import measure_limits

    return given.known() or given.completed(measure_limits(weight_bytes))


def card_limits(given: GivenLimits, device: Device) -> MachineLimits:
    """Of a GPU. One without a clock of its own is not measured."""
    known = given.known()
    if known is not None:
        return known
    if device.stream is None:
        raise UnsupportedError(f"the limits of {device.name} are not measured: give --bandwidth and --compute")
    from antiphon.ops.triton.program.limits import measure_card

    return given.completed(measure_card(device.torch))
