"""What native programs and the machine's limits are measured with."""

from __future__ import annotations

import pytest
import torch

from antiphon import ops
from antiphon.ops import native
from antiphon.ops.native.program.limits import measure_limits
from antiphon.ops.native.program.program import Program
from antiphon.ops.program import InputSpec, record

pytestmark = pytest.mark.skipif(not native.available(), reason="the native extension was not built")


def test_a_profiled_run_counts_calls_and_rows() -> None:
    gain = torch.ones(64)
    recording = record(
        lambda inputs, _: ops.rms_norm(inputs["x"], gain, 1e-6)[0], (InputSpec("x", torch.float32, ("T", 64)),)
    )
    program = Program(recording, threads=2)
    program.run({"x": torch.randn(5, 64)})
    program.profile(True)
    for rows in (3, 4):
        program.run({"x": torch.randn(rows, 64)})
    program.profile(False)
    program.run({"x": torch.randn(5, 64)})
    ((calls, nanoseconds, rows, *_),) = program.profiles()
    assert (calls, rows) == (2, 7) and nanoseconds > 0


def test_limits_of_this_machine_are_measured() -> None:
    limits = measure_limits(1 << 20, threads=2)
    assert limits.bytes_per_second > 0 and limits.macs_per_second > 0 and limits.int8_macs_per_second >= 0
