"""Weights on the GPU: quantised weights keep their type, all others become matrices of the compute type."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.reference.weights import dense
from antiphon.ops.triton import is_interpreted
from antiphon.ops.triton.quantised.matrix import can_prepare
from antiphon.ops.triton.quantised.prepare import PreparedWeight, prepare_quantised
from antiphon.ops.triton.quantised.workspace import expect_weight
from antiphon.ops.triton.upload import UploadRing
from antiphon.ops.types import WeightForm
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TORCH_DTYPES, TYPE_OF_DTYPE, TensorType
from antiphon.weights.weight import Weight, WeightPart

#: Key in `Weight.packed` of the matrix [rows, columns] or the quantised form on the GPU.
MATRIX = "triton"
#: Uploaded bytes after which the file's pages are released.
RELEASE_BYTES = 1 << 30


def form_of(weight: Weight, device: torch.device) -> Tensor | PreparedWeight:
    """Return the weight on the device: a matrix, or its quantised form.

    A weight that was not prepared is decoded exactly: to its own type if all parts share one float type, otherwise to
    fp32.
    """
    matrix: Tensor | PreparedWeight | None = weight.packed.get(MATRIX)
    if matrix is None or matrix.device != device:
        types = {part.type for part in weight.parts}
        dtype = TORCH_DTYPES.get(types.pop(), torch.float32) if len(types) == 1 else torch.float32
        matrix = weight.packed[MATRIX] = dense(weight).to(device, dtype)
    return matrix


def matrix_of(weight: Weight, device: torch.device) -> Tensor:
    """Return the weight as a matrix on the device; raise `UnsupportedError` if it is quantised there."""
    form = form_of(weight, device)
    if not isinstance(form, Tensor):
        raise UnsupportedError("a weight that is quantised on the GPU is needed as floats; load it without")
    return form


def prepare_weights(
    weights: Sequence[Weight],
    repack: bool = True,
    quantize: Callable[[Weight], TensorType | None] = lambda weight: None,
    release_pages: Callable[[], None] = lambda: None,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.bfloat16,
) -> list[WeightForm]:
    """Upload every weight to the device and release the file's bytes; return the forms of all parts.

    Weights of the quantised types that the kernels read keep their type. Float weights become the type that `quantize`
    returns. All others, and floats for which it returns None, become matrices of `dtype`. The default device is the
    current CUDA device, or the CPU under the interpreter.
    """
    if device is None:
        device = torch.device("cpu") if is_interpreted() else torch.device("cuda", torch.cuda.current_device())
    forms: list[WeightForm] = []
    uploaded = 0
    with UploadRing(device) as ring:
        for weight in weights:
            if MATRIX in weight.packed:
                continue  # shared with another layer
            target = quantize(weight)
            prepared = _quantised(weight, target, device, ring)
            if prepared is not None:
                expect_weight(device, weight.rows, weight.columns)
                forms += _quantised_forms(weight, target, prepared.nbytes)
            else:
                forms += _float_forms(weight, dtype)
            weight.packed[MATRIX] = _matrix(weight, dtype, device, ring) if prepared is None else prepared
            uploaded += weight.nbytes
            if uploaded >= RELEASE_BYTES:
                ring.wait()
                uploaded = 0
                release_pages()
        ring.wait()
    for weight in weights:
        weight.release_parts()
    release_pages()
    return forms


def _quantised(
    weight: Weight, target: TensorType | None, device: torch.device, ring: UploadRing
) -> PreparedWeight | None:
    """Return the weight's quantised form on the device, or None if the weight becomes floats."""
    if target is None and not can_prepare(weight):
        return None
    parts = []
    for part in weight.parts:
        data = torch.empty(part.data.shape, dtype=torch.uint8, device=device)
        ring.copy(part.data, data)
        parts.append(WeightPart(part.type, part.rows, data))
    ring.wait()
    # I8, with one scale per row, is a type of the CPU; on the GPU blocks are as fast.
    target = TensorType.Q8_0 if target is TensorType.I8 else target
    return prepare_quantised(Weight(tuple(parts), weight.columns), device, target)


def _quantised_forms(weight: Weight, target: TensorType | None, nbytes: int) -> list[WeightForm]:
    """Return the form of each part, with the part's share of `nbytes` by rows."""
    forms, rows, before = [], 0, 0
    for part in weight.parts:
        rows += part.rows
        until = nbytes * rows // weight.rows
        became = target if part.type in TORCH_DTYPES else None
        forms.append(
            WeightForm(part.type, part.data.numel(), until - before, packed=became is None, quantized=became)
        )  # fmt: skip
        before = until
    return forms


def _float_forms(weight: Weight, dtype: torch.dtype) -> list[WeightForm]:
    return [
        WeightForm(
            part.type, part.data.numel(), part.rows * weight.columns * dtype.itemsize,
            quantized=None if TORCH_DTYPES.get(part.type) is dtype else TYPE_OF_DTYPE[dtype],
        )
        for part in weight.parts
    ]  # fmt: skip


def _matrix(weight: Weight, dtype: torch.dtype, device: torch.device, ring: UploadRing) -> Tensor:
    """Return the weight decoded to `dtype`; the contents are complete once `ring.wait` returns."""
    matrix = torch.empty(weight.rows, weight.columns, dtype=dtype, device=device)
    start = 0
    for part in weight.parts:
        _fill(matrix[start : start + part.rows], part, ring)
        start += part.rows
    return matrix


def _fill(rows: Tensor, part: WeightPart, ring: UploadRing) -> None:
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
