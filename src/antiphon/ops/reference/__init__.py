"""Every operation in plain PyTorch, for any device and any size: what the operations mean.

The signatures and docstrings here are the contract of all backends. Operations of speech synthesis are in `ops/sound`.
"""

from __future__ import annotations

from antiphon.ops.reference import (
    activation,
    attention,
    convolution,
    logits,
    product,
    recurrent,
    rows,
    sampling,
    weights,
)

__all__ = ["activation", "attention", "convolution", "logits", "product", "recurrent", "rows", "sampling", "weights"]
