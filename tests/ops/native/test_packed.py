"""Packed weights: the stated arithmetic to the bit in every variant, whatever the company, and close to float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.ops import native
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight
from ops.native.test_native_product import decoded, encode, random_weight, random_x

pytestmark = pytest.mark.skipif(not native.available(), reason="the extension was not built")

PACKED = [
    TensorType.Q4_0, TensorType.Q4_1, TensorType.Q5_0, TensorType.Q5_1, TensorType.Q8_0, TensorType.Q4_K,
    TensorType.Q5_K, TensorType.Q6_K,
]  # fmt: skip
K_TYPES = (TensorType.Q4_K, TensorType.Q5_K, TensorType.Q6_K)
TOKENS = (1, 2, 3, 5, 8, 17, 64, 65, 130)
VARIANTS = pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())
TYPES = pytest.mark.parametrize("type", PACKED, ids=lambda type: type.name)
GROUP = 32


def packed_weight(type: TensorType, rows: int, columns: int, seed: int = 0) -> tuple[Weight, Weight]:
    """A weight as it is stored, and the same packed."""
    stored, packed = (random_weight(type, rows, columns, seed) for _ in range(2))
    (form,) = native.prepare_weights([packed])
    assert form.packed and not packed.parts and packed.resident_bytes == form.resident_bytes
    return stored, packed


def shapes(type: TensorType) -> list[tuple[int, int]]:
    """Tiles that are not full, blocks that are not full, a single group; K types have whole blocks of 256."""
    return [(37, 512), (16, 256), (1, 768)] if type in K_TYPES else [(37, 576), (16, 32), (1, 288), (50, 96)]


def quantized(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """int codes [T, groups, 32] and fp32 scales [T, groups] of x, as csrc/packed.h states."""
    groups = x.numpy().reshape(len(x), -1, GROUP)
    largest = np.abs(groups).max(-1)
    usable = np.isfinite(largest) & (largest >= 2.0**-100)
    scales = np.where(usable, largest / np.float32(127), np.where(np.isfinite(largest), 0, np.nan)).astype(np.float32)
    inverse = np.where(usable, np.float32(127) / np.where(usable, largest, 1), 0).astype(np.float32)
    codes = np.where(usable[..., None], np.rint(np.where(np.isfinite(groups), groups, 0) * inverse[..., None]), 0)
    return codes.astype(np.int64), scales


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c rounded once to fp32. The product of two fp32 is exact in fp64, the sum in long double nearly so."""
    exact = a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)
    return exact.astype(np.float32)


def integers(weight: Weight) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Codes less zero [N, groups, 32], scales W [N, groups], minima M or None, int scales by half or None."""
    (part,) = weight.parts
    name, blocks = part.type.name, part.data.numpy().reshape(part.rows, -1, part.type.block.size)

    def half(at: int) -> np.ndarray:
        return np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16)[..., 0].astype(np.float32)

    if part.type not in K_TYPES:
        head = {"Q4_0": 2, "Q4_1": 4, "Q5_0": 6, "Q5_1": 8, "Q8_0": 2}[name]
        body = blocks[..., head:]
        if name == "Q8_0":
            codes = body.view(np.int8).astype(np.int64)
        else:
            codes = np.concatenate([body & 15, body >> 4], axis=-1).astype(np.int64)
        if name.startswith("Q5"):
            bits = np.unpackbits(blocks[..., head - 4 : head], axis=-1, bitorder="little")
            codes |= bits.astype(np.int64) << 4
        codes -= {"Q4_0": 8, "Q5_0": 16}.get(name, 0)
        return codes, half(0), half(2) if name.endswith("_1") else None, None
    if name == "Q6_K":
        low = blocks[..., :128].reshape(part.rows, -1, 2, 2, 32)
        high = blocks[..., 128:192].reshape(part.rows, -1, 2, 1, 32)
        nibbles = np.concatenate([low & 15, low >> 4], axis=-2)  # [N, blocks, 2, 4, 32]
        upper = np.concatenate([high >> (2 * i) & 3 for i in range(4)], axis=-2)
        codes = (nibbles | upper << 4).reshape(part.rows, -1, GROUP).astype(np.int64) - 32
        scales = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8).reshape(part.rows, -1, 2).astype(np.int64)
        return codes, np.repeat(half(208), 8, axis=1), None, scales
    nibbles = blocks[..., -128:].reshape(part.rows, -1, 4, 1, 32)
    codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=-2).reshape(part.rows, -1, 8, 32).astype(np.int64)
    if name == "Q5_K":
        codes |= np.stack([blocks[..., 16:48] >> g & 1 for g in range(8)], axis=-2).astype(np.int64) << 4
    packed = blocks[..., 4:16]
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scale = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=-1).astype(np.float32)
    minimum = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=-1).astype(np.float32)
    w, m = half(0)[..., None] * scale, -(half(2)[..., None] * minimum)
    flat = (part.rows, -1)
    return codes.reshape(part.rows, -1, GROUP), w.reshape(flat), m.reshape(flat), None


def oracle(x: Tensor, weight: Weight) -> np.ndarray:
    """The product exactly as csrc/packed.h states it."""
    x_codes, x_scales = quantized(x)
    codes, scales, minima, halves = integers(weight)
    total = np.zeros((len(x), len(codes)), np.float32)
    least = np.zeros_like(total)
    for g in range(codes.shape[1]):
        if halves is None:
            exact = x_codes[:, g] @ codes[:, g].T
        else:
            low = (x_codes[:, g, :16] @ codes[:, g, :16].T) * halves[:, g, 0]
            exact = low + (x_codes[:, g, 16:] @ codes[:, g, 16:].T) * halves[:, g, 1]
        assert np.abs(exact).max(initial=0) < 1 << 24
        total = fma(exact.astype(np.float32), scales[None, :, g] * x_scales[:, None, g], total)
        if minima is not None:
            offset = x_scales[:, g] * x_codes[:, g].sum(-1).astype(np.float32)
            least = fma(minima[None, :, g], offset[:, None], least)
    return total if minima is None else total + least


@VARIANTS
@TYPES
def test_the_stated_arithmetic_to_the_bit(type: TensorType, variant: int) -> None:
    for rows, columns in shapes(type):
        stored, packed = packed_weight(type, rows, columns)
        x = random_x(max(TOKENS), columns)
        expected = oracle(x, stored)
        for tokens in TOKENS:
            for threads in (1, 3):
                y = native.matmul(x[:tokens], packed, threads=threads, variant=variant)
                np.testing.assert_array_equal(y.numpy(), expected[:tokens])


@TYPES
def test_the_error_is_that_of_rounding_x_to_eight_bits(type: TensorType) -> None:
    """Each rounded element is off by half a step of its group at most; the sum stays well inside that bound."""
    for rows, columns in shapes(type):
        stored, packed = packed_weight(type, rows, columns, 3)
        x, matrix = random_x(9, columns), decoded(stored)
        exact = x.double().numpy() @ matrix.T
        steps = np.abs(x.numpy()).reshape(9, -1, GROUP).max(-1) / 127
        bound = (np.repeat(steps, GROUP, axis=1) / 2) @ np.abs(matrix).T
        assert (np.abs(native.matmul(x, packed).double().numpy() - exact) <= bound * (1 + 1e-4) + 1e-6).all()


@VARIANTS
@TYPES
def test_rows_come_back_as_the_file_has_them(type: TensorType, variant: int) -> None:
    stored, packed = packed_weight(type, 37, 512)
    ids = torch.tensor([36, 0, 15, 16, 3, 3])
    assert torch.equal(native.take_rows(packed, ids, variant), native.take_rows(stored, ids, variant))
    expected = decoded(stored)[ids.numpy()]
    np.testing.assert_allclose(native.take_rows(packed, ids).numpy(), expected, rtol=1e-6, atol=1e-7)


@VARIANTS
def test_magnitudes_at_both_ends(variant: int) -> None:
    stored, packed = packed_weight(TensorType.Q4_1, 20, 96)
    x = random_x(6, 96)
    x[0] = 0
    x[1, 40:50] = float("inf")
    x[2, 3] = float("nan")
    x[3] *= 1e-38
    x[4] *= 1e30
    y = native.matmul(x, packed, variant=variant)
    assert (y[0] == 0).all() and y[1].isnan().all() and y[2].isnan().all() and (y[3] == 0).all()
    np.testing.assert_array_equal(y.numpy(), oracle(x, stored))


@VARIANTS
def test_parts_of_different_forms_fill_one_output(variant: int) -> None:
    kinds = {"Q4_K": 33, "Q3_K": 5, "Q6_K": 7, "F16": 18, "Q8_0": 1}
    parts = tuple(encode(TensorType[name], rows, 512, seed) for seed, (name, rows) in enumerate(kinds.items()))
    weight, x = Weight(parts, 512), random_x(6, 512)
    forms = native.prepare_weights([weight])
    assert [form.packed for form in forms] == [True, False, True, False, True] and weight.parts
    expected = []
    for part in parts:
        single = Weight((part,), 512)
        expected.append(
            torch.from_numpy(oracle(x, single)) if part.type in PACKED else native.matmul(x, single, variant=variant)
        )
    for threads in (1, 4):
        assert torch.equal(native.matmul(x, weight, threads=threads, variant=variant), torch.cat(expected, dim=1))
    gate = native.linear(x, weight, activation="silu_gate", threads=3, variant=variant)
    whole = torch.cat(expected, dim=1)
    torch.testing.assert_close(gate, torch.nn.functional.silu(whole[:, :32]) * whole[:, 32:], rtol=1e-5, atol=1e-5)


def test_what_has_no_packed_form_stays() -> None:
    for type, columns in ((TensorType.Q3_K, 256), (TensorType.F32, 64), (TensorType.IQ4_NL, 64)):
        weight = random_weight(type, 4, columns)
        (form,) = native.prepare_weights([weight])
        assert not form.packed and weight.parts and form.resident_bytes == form.stored_bytes == weight.nbytes
    weight = random_weight(TensorType.Q4_0, 4, 64)
    (form,) = native.prepare_weights([weight], repack=False)
    assert not form.packed and weight.parts


def test_packed_weights_take_little_more_than_the_file() -> None:
    for type in PACKED:
        stored, packed = packed_weight(type, 64, 2048)
        assert packed.resident_bytes <= 1.03 * stored.nbytes


@pytest.mark.parametrize("target", [TensorType.Q8_0, TensorType.Q4_1], ids=lambda type: type.name)
@pytest.mark.parametrize("type", [TensorType.F32, TensorType.F16, TensorType.BF16], ids=lambda type: type.name)
def test_floats_are_quantised_at_load(type: TensorType, target: TensorType) -> None:
    weight = random_weight(type, 48, 160)
    exact = decoded(weight)
    (form,) = native.prepare_weights([weight], quantize=lambda weight: target)
    assert form.quantized is target and not weight.parts and weight.resident_bytes < 0.6 * form.stored_bytes
    got = native.take_rows(weight, torch.arange(48)).double().numpy()
    error = np.linalg.norm(got - exact) / np.linalg.norm(exact)
    assert error <= (0.006 if target is TensorType.Q8_0 else 0.07)


def test_the_search_beats_the_plain_range() -> None:
    """Q4_1 by minimum and maximum alone, as the `gguf` package makes it, has a larger error."""
    import gguf

    values = np.random.default_rng(5).standard_normal((64, 256)).astype(np.float32)
    kind = gguf.GGMLQuantizationType.Q4_1
    plain = gguf.quants.dequantize(gguf.quants.quantize(values, kind), kind)
    weight = Weight.from_tensor(torch.from_numpy(values))
    native.prepare_weights([weight], quantize=lambda weight: TensorType.Q4_1)
    searched = native.take_rows(weight, torch.arange(64)).numpy()
    assert np.square(searched - values).sum() <= 0.9 * np.square(plain - values).sum()


def test_floats_with_other_columns_are_kept() -> None:
    weight = random_weight(TensorType.F32, 4, 33)
    (form,) = native.prepare_weights([weight], quantize=lambda weight: TensorType.Q8_0)
    assert form.quantized is None and not form.packed and weight.parts
