"""Weights packed for the native products when a model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon.ops.native.extension import extension
from antiphon.ops.native.half import PANEL, HalfPanels, computes_in_half
from antiphon.ops.native.product import HALF, PACKED, ROW_SCALED, append_part, supports_type
from antiphon.ops.native.row_scaled import COLUMNS, ScaledRows, has_row_scaled
from antiphon.ops.reference.weights import dense
from antiphon.ops.threads import default_threads
from antiphon.ops.types import WeightForm
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

#: Number of packed bytes after which the file's pages are released.
RELEASE_BYTES = 64 << 20


def prepare_weights(
    weights: Sequence[Weight],
    repack: bool = True,
    quantize: Callable[[Weight], TensorType | None] = lambda weight: None,
    release_pages: Callable[[], None] = lambda: None,
) -> list[WeightForm]:
    """Pack weights that have a packed form, quantise floats to the type that `quantize` returns, and return the forms.

    For I8, rows get one scale each, or are Q8_0 if the processor or the weight does not support that. A completely
    packed weight releases its file's bytes. `release_pages` is called during the work, so that file and packed weights
    are not both in memory. Without `repack`, parts that are quantised in the file are not packed.
    """
    forms = [planned_forms(weight, repack, quantize(weight)) for weight in weights]
    for weight, of_weight in zip(weights, forms, strict=True):
        if all(form.quantized is TensorType.F16 for form in of_weight):
            weight.packed[HALF] = HalfPanels.of(dense(weight)[:, :, None])
        if all(form.quantized is TensorType.I8 for form in of_weight):
            weight.packed[ROW_SCALED] = ScaledRows.of(dense(weight))
            weight.release_parts()
    sizes = [form.resident_bytes for of_weight in forms for form in of_weight if form.packed]
    if not sizes:
        return [form for of_weight in forms for form in of_weight]
    store, packed = extension().Store(sum(sizes)), 0
    for weight, of_weight in zip(weights, forms, strict=True):
        if not any(form.packed for form in of_weight):
            continue
        matrix = extension().Matrix(weight.columns)
        for part, form in zip(weight.parts, of_weight, strict=True):
            source = (part.data.data_ptr(), part.data.shape[1], part.rows)
            if form.quantized is not None:
                matrix.quantize(part.type, form.quantized, *source, store, default_threads())
            elif form.packed:
                matrix.pack(part.type, *source, store, default_threads())
            else:
                append_part(matrix, part)
        weight.packed[PACKED] = matrix
        if all(form.packed for form in of_weight):
            weight.release_parts()
        packed += matrix.nbytes
        if packed >= RELEASE_BYTES:
            packed = 0
            release_pages()
    release_pages()
    return [form for of_weight in forms for form in of_weight]


def planned_forms(weight: Weight, repack: bool, quantize: TensorType | None) -> list[WeightForm]:
    """Return the forms that `prepare_weights` gives to the parts of a weight, without computing them."""
    if not all(supports_type(part.type) and part.data.is_cpu for part in weight.parts):
        return [WeightForm(part.type, part.data.numel(), part.data.numel()) for part in weight.parts]
    if quantize is TensorType.I8 and not _suits_row_scales(weight):
        quantize = TensorType.Q8_0
    return [_form(part, weight.columns, repack, quantize) for part in weight.parts]


def _suits_row_scales(weight: Weight) -> bool:
    numeric = all(part.type.is_float or part.type is TensorType.Q8_0 for part in weight.parts)
    return numeric and has_row_scaled() and weight.columns % COLUMNS == 0


def _form(part: WeightPart, columns: int, repack: bool, quantize: TensorType | None) -> WeightForm:
    stored = part.data.numel()
    if quantize is TensorType.F16:
        suits = part.type is TensorType.F32 and computes_in_half() and part.rows >= PANEL
        if not suits:
            return WeightForm(part.type, stored, stored)
        return WeightForm(part.type, stored, part.rows * columns * 2, quantized=quantize)
    if quantize is TensorType.I8:
        return WeightForm(part.type, stored, part.rows * (columns + 4), quantized=quantize)
    if quantize is not None and part.type.is_float and extension().packs(quantize, columns):
        size = extension().packed_bytes(quantize, part.rows, columns)
        return WeightForm(part.type, stored, size, packed=True, quantized=quantize)
    if repack and extension().packs(part.type, columns):
        return WeightForm(part.type, stored, extension().packed_bytes(part.type, part.rows, columns), packed=True)
    return WeightForm(part.type, stored, stored)
