"""The Fourier transform of Kokoro's source, with the rounding errors that the network was trained with.

Unvoiced frames are constant, so their spectrum is empty above the first bins. The network still reads the phases of
those bins, which only the transform's rounding decides. The exported graph computes the transform by the chirp-z
algorithm with tables in single precision; the matrix here is that algorithm with the same tables, so that the phases
agree.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def transform_basis(size: int) -> Tensor:
    """Return windowed cosines, then sines, of a transform of `size` samples: [size + 2, 1, size]."""
    n = torch.arange(size, dtype=torch.float64)
    window = (0.5 - 0.5 * torch.cos(2 * math.pi * n / size)).float().double()
    angle = -torch.tensor(math.pi, dtype=torch.float32) * n.float() * n.float() / size
    chirp = torch.complex(angle.cos(), angle.sin()).to(torch.complex128)
    padded = 1 << (2 * size - 2).bit_length()
    kernel = torch.zeros(padded, dtype=torch.complex128)
    kernel[:size] = chirp.conj()
    kernel[padded - size + 1 :] = chirp[1:].conj().flip(0)
    kernel = _transform(kernel, inverse=False).to(torch.complex64).to(torch.complex128)
    signal = torch.zeros(size, padded, dtype=torch.complex128)
    signal[:, :size] = torch.diag(chirp)
    product = _transform(signal, inverse=False) * kernel
    columns = _transform(product, inverse=True)[:, :size] / padded * chirp  # [sample, frequency]
    matrix = columns[:, : size // 2 + 1].T * window
    return torch.cat([matrix.real, matrix.imag])[:, None].float()


def _transform(x: Tensor, inverse: bool) -> Tensor:
    """Transform the last dimension, a power of two, by radix 2 with rotations rounded to single precision."""
    size = x.shape[-1]
    turn = (1.0 if inverse else -1.0) * torch.tensor(2 * math.pi, dtype=torch.float32) / size
    angle = torch.arange(size, dtype=torch.float32) * turn
    rotation = torch.complex(angle.cos(), angle.sin()).to(torch.complex128)
    bits = size.bit_length() - 1
    x = x[..., [int(f"{index:0{bits}b}"[::-1], 2) for index in range(size)]]
    span = 1
    while span < size:
        even, odd = x.unflatten(-1, (-1, 2, span)).unbind(-2)
        step = size // (2 * span)
        first, second = rotation[: span * step : step], rotation[span * step :: step]
        x = torch.stack([even + first * odd, even + second * odd], dim=-2).flatten(-3)
        span *= 2
    return x
