"""Norms of channels over the frames of a row, in three kernels: moments of parts, their combination, and the result.

Frames are [B, T, C], of which each row has as many as its length. The moments of a part are its mean and the sum of
squared distances from its mean, which combine to those of the row without loss (Chan, Golub, LeVeque 1979).
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Numbers of the functions that may follow the norm.
NONE, LEAKY, SNAKE = range(3)

_LEAKY = tl.constexpr(LEAKY)
_SNAKE = tl.constexpr(SNAKE)


@triton.jit
def part_moments(
    x, lengths, means, squares, num_frames, num_channels, num_parts,
    FRAMES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Write the moments [B, num_parts, C] of parts of FRAMES frames; zeros for a part beyond the row's length."""
    part, row = tl.program_id(0), tl.program_id(2).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    frame = part * FRAMES + tl.arange(0, FRAMES)
    length = tl.load(lengths + row).to(tl.int32)
    in_width = channel < num_channels
    inside = (frame < length)[:, None] & in_width[None, :]
    element = row * num_frames * num_channels + frame[:, None].to(tl.int64) * num_channels + channel[None, :]
    tile = tl.load(x + element, mask=inside, other=0.0).to(tl.float32)
    count = tl.minimum(tl.maximum(length - part * FRAMES, 1), FRAMES)
    mean = tl.sum(tile, 0) / count
    centred = tl.where(inside, tile - mean[None, :], 0.0)
    out = (row * num_parts + part) * num_channels + channel
    tl.store(means + out, mean, mask=in_width)
    tl.store(squares + out, tl.sum(centred * centred, 0), mask=in_width)


@triton.jit
def row_moments(
    means, squares, lengths, scale, mean, factor, num_channels, num_parts, scale_stride, eps,
    FRAMES: tl.constexpr, PARTS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Combine the parts' moments to the mean [B, C] of whole rows, and factor = scale / sqrt(variance + eps)."""
    row = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    in_width = channel < num_channels
    length = tl.load(lengths + row).to(tl.int32)
    first = row * num_parts * num_channels + channel[None, :]
    total = tl.zeros([CHANNELS], tl.float32)
    for start in range(0, num_parts, PARTS):
        part = start + tl.arange(0, PARTS)
        inside = (part < num_parts)[:, None] & in_width[None, :]
        count = tl.minimum(tl.maximum(length - part * FRAMES, 0), FRAMES).to(tl.float32)
        own = tl.load(means + first + part[:, None] * num_channels, mask=inside, other=0.0)
        total += tl.sum(own * count[:, None], 0)
    centre = total / length
    spread = tl.zeros([CHANNELS], tl.float32)
    for start in range(0, num_parts, PARTS):
        part = start + tl.arange(0, PARTS)
        inside = (part < num_parts)[:, None] & in_width[None, :]
        count = tl.minimum(tl.maximum(length - part * FRAMES, 0), FRAMES).to(tl.float32)
        element = first + part[:, None] * num_channels
        apart = tl.load(means + element, mask=inside, other=0.0) - centre[None, :]
        spread += tl.sum(tl.load(squares + element, mask=inside, other=0.0) + apart * apart * count[:, None], 0)
    gain = tl.load(scale + row * scale_stride + channel, mask=in_width, other=0.0).to(tl.float32)
    out = row * num_channels + channel
    tl.store(mean + out, centre, mask=in_width)
    tl.store(factor + out, gain / tl.sqrt(spread / length + eps), mask=in_width)


@triton.jit
def norm_frames(
    x, lengths, mean, factor, shift, alpha, y, num_frames, num_channels, shift_stride, slope,
    FUNCTION: tl.constexpr, FRAMES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute y = (x - mean) * factor + shift, then FUNCTION; zeros beyond the row's length."""
    row = tl.program_id(2).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    frame = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES)
    in_width = channel < num_channels
    within = (frame < tl.load(lengths + row).to(tl.int32))[:, None] & in_width[None, :]
    own = row * num_channels + channel
    centre = tl.load(mean + own, mask=in_width, other=0.0)
    gain = tl.load(factor + own, mask=in_width, other=0.0)
    offset = tl.load(shift + row * shift_stride + channel, mask=in_width, other=0.0).to(tl.float32)
    element = row * num_frames * num_channels + frame[:, None].to(tl.int64) * num_channels + channel[None, :]
    values = tl.load(x + element, mask=within, other=0.0).to(tl.float32)
    values = (values - centre[None, :]) * gain[None, :] + offset[None, :]
    if FUNCTION == _LEAKY:
        values = tl.where(values > 0.0, values, values * slope)
    if FUNCTION == _SNAKE:
        values *= tl.load(alpha + channel, mask=in_width, other=0.0)[None, :]
        wave = tl.sin(values)
        values += wave * wave
    values = tl.where(within, values, 0.0)
    tl.store(y + element, values.to(y.dtype.element_ty), mask=(frame < num_frames)[:, None] & in_width[None, :])
