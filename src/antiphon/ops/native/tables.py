"""Extension's numbers for names in the operations' arguments."""

from __future__ import annotations

from antiphon.ops.types import Activation

#: Extension's number of each activation, and whether the activation is gated.
ACTIVATIONS: dict[Activation, tuple[int, bool]] = {
    "none": (0, False), "relu": (1, False), "gelu": (2, False), "gelu_tanh": (3, False), "silu": (4, False),
    "gelu_tanh_gate": (3, True), "silu_gate": (4, True),
}  # fmt: skip
