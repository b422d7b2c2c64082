"""Reference implementations of all operations, in plain PyTorch, for any device and size.

Their signatures and docstrings are the contract of all backends. Operations of speech synthesis are in `ops/sound`.
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
