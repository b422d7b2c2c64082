"""The adaptive norm with its activation, which reads the frames twice and writes them once."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.triton.kernels.sound.frame_norm import LEAKY, NONE, SNAKE, norm_frames, part_moments, row_moments
from antiphon.ops.triton.launch import ceil_power
from antiphon.ops.triton.sound.convolution import half_type

#: Frames and channels per program: of the moments, and of the result.
PART_FRAMES, PART_CHANNELS = 256, 32
FRAMES, CHANNELS = 64, 64
#: Maximum parts combined per iteration.
MAX_PARTS = 256


def adaptive_norm(
    x: Tensor,
    lengths: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    slope: float | None = None,
    alpha: Tensor | None = None,
    half: bool = False,
) -> Tensor:
    if slope is not None and alpha is not None:
        y = adaptive_norm(x, lengths, scale, shift, eps, slope) * alpha
        return y + y.sin().square()
    x = x.contiguous()
    scale, shift = (part if part.stride(-1) == 1 else part.contiguous() for part in (scale, shift))
    batch, num_frames, channels = x.shape
    parts = -(-num_frames // PART_FRAMES)
    means, squares = torch.empty(2, batch, parts, channels, device=x.device)
    mean, factor = torch.empty(2, batch, channels, device=x.device)
    blocks = -(-channels // PART_CHANNELS)
    part_moments[(parts, blocks, batch)](
        x, lengths, means, squares, num_frames, channels, parts, FRAMES=PART_FRAMES, CHANNELS=PART_CHANNELS,
        num_warps=8,
    )  # fmt: skip
    row_moments[(blocks, batch)](
        means, squares, lengths, scale, mean, factor, channels, parts, scale.stride(0), eps,
        FRAMES=PART_FRAMES, PARTS=min(ceil_power(parts), MAX_PARTS), CHANNELS=PART_CHANNELS, num_warps=8,
    )  # fmt: skip
    y = torch.empty(x.shape, dtype=half_type() if half else torch.float32, device=x.device)
    function = LEAKY if slope is not None else SNAKE if alpha is not None else NONE
    norm_frames[(-(-num_frames // FRAMES), -(-channels // CHANNELS), batch)](
        x, lengths, mean, factor, shift, x if alpha is None else alpha, y, num_frames, channels, shift.stride(0),
        slope or 0.0, FUNCTION=function, FRAMES=FRAMES, CHANNELS=CHANNELS, num_warps=4,
    )  # fmt: skip
    return y
