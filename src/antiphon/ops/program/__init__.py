"""Recorded forward passes: a model's operations as instructions over values of symbolic size, for any device.

`record` runs a forward pass on stand-ins for tensors. An emitter, such as `ops/native/program`, turns the recording
into a program for a device.
"""

from __future__ import annotations

from antiphon.ops.program.recording import InputSpec, Recording, record

__all__ = ["InputSpec", "Recording", "record"]
