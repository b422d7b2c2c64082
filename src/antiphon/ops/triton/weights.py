"""Weights as matrices on the card, in the type that it computes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.reference.weights import dense
from antiphon.ops.triton import is_interpreted
from antiphon.ops.triton.upload import UploadRing
from antiphon.ops.types import WeightForm
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TORCH_DTYPES, TYPE_OF_DTYPE, TensorType
from antiphon.weights.weight import Weight, WeightPart

#: The key of a weight's matrix [rows, columns] among its packed forms.
MATRIX = "triton"
#: Uploaded bytes after which the file's pages are released.
RELEASE_BYTES = 1 << 30


def matrix_of(weight: Weight, device: torch.device) -> Tensor:
    """The weight as one matrix on the device.

    A weight that was not prepared is decoded exactly: it keeps its type if all of it has one float type, else it
    becomes fp32.
    """
    matrix = weight.packed.get(MATRIX)
    if matrix is None or matrix.device != device:
        types = {part.type for part in weight.parts}
        dtype = TORCH_DTYPES.get(types.pop(), torch.float32) if len(types) == 1 else torch.float32
        matrix = weight.packed[MATRIX] = dense(weight).to(device, dtype)
    return matrix


def prepare_weights(
    weights: Sequence[Weight],
    repack: bool = True,
    quantize: Callable[[Weight], TensorType | None] = lambda weight: None,
    release_pages: Callable[[], None] = lambda: None,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.bfloat16,
) -> list[WeightForm]:
    """Bring every weight to the device as a matrix of `dtype`; the file's bytes are released.

    Without a device it is the current CUDA device (the CPU under the interpreter).
    """
    if device is None:
        device = torch.device("cpu") if is_interpreted() else torch.device("cuda", torch.cuda.current_device())
    forms: list[WeightForm] = []
    uploaded = 0
    with UploadRing(device) as ring:
        for weight in weights:
            if quantize(weight) is not None:
                raise UnsupportedError("float weights cannot be quantised on CUDA; load them without quantisation")
            if MATRIX in weight.packed:
                continue  # two layers share it
            matrix = torch.empty(weight.rows, weight.columns, dtype=dtype, device=device)
            start = 0
            for part in weight.parts:
                _fill(matrix[start : start + part.rows], part, ring)
                start += part.rows
                size = part.rows * weight.columns * dtype.itemsize
                became = None if TORCH_DTYPES.get(part.type) is dtype else TYPE_OF_DTYPE[dtype]
                forms.append(WeightForm(part.type, part.data.numel(), size, quantized=became))
                uploaded += part.data.numel()
            weight.packed[MATRIX] = matrix
            if uploaded >= RELEASE_BYTES:
                ring.wait()
                uploaded = 0
                release_pages()
        ring.wait()
    for weight in weights:
        weight.release_parts()
    release_pages()
    return forms


def _fill(rows: Tensor, part: WeightPart, ring: UploadRing) -> None:
    """Decode a part into its rows of the matrix."""
    if TORCH_DTYPES.get(part.type) is rows.dtype:
        ring.copy(part.data, rows)
        return
    if part.type.name.startswith("IQ"):  # their codebooks are on the CPU
        ring.copy(dequantize(part.data, part.type).to(rows.dtype), rows)
        return
    encoded = torch.empty(part.data.shape, dtype=torch.uint8, device=rows.device)
    ring.copy(part.data, encoded)
    ring.wait()
    rows.copy_(dequantize(encoded, part.type).view(rows.shape))
