"""The native kernels against the `gguf` package's decoders and float64 products."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.ops import native
from antiphon.ops.threads import default_threads
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

pytestmark = pytest.mark.skipif(not native.available(), reason="the extension was not built")

FLOATS = [TensorType.F32, TensorType.F16, TensorType.BF16]
QUANTISED = [
    TensorType.Q4_0, TensorType.Q4_1, TensorType.Q5_0, TensorType.Q5_1, TensorType.Q8_0, TensorType.Q2_K,
    TensorType.Q3_K, TensorType.Q4_K, TensorType.Q5_K, TensorType.Q6_K, TensorType.IQ4_NL, TensorType.IQ4_XS,
    TensorType.IQ2_XXS, TensorType.IQ2_XS, TensorType.IQ2_S, TensorType.IQ3_XXS, TensorType.IQ3_S,
]  # fmt: skip

#: Where the fp16 factors of a block lie, for the types that the `gguf` package cannot encode.
FACTORS = {
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,),
    "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,),
}  # fmt: skip


def encode(type: TensorType, rows: int, columns: int, seed: int = 0) -> WeightPart:
    """Random rows of a type: encoded by `gguf` where it can, else random bytes with random small factors."""
    rng = np.random.default_rng(seed)
    if type.name in FACTORS:
        blocks = rng.integers(0, 256, (rows * columns // type.block.elements, type.block.size), dtype=np.uint8)
        for offset in FACTORS[type.name]:
            factor = rng.uniform(-0.01, 0.01, len(blocks)).astype(np.float16)
            blocks[:, offset : offset + 2] = factor.view(np.uint8).reshape(-1, 2)
        data = blocks.reshape(rows, -1)
    else:
        values = rng.standard_normal((rows, columns)).astype(np.float32)
        data = gguf.quants.quantize(values, gguf.GGMLQuantizationType(int(type)))
        data = np.ascontiguousarray(data).view(np.uint8).reshape(rows, -1)
    return WeightPart(type, rows, torch.from_numpy(data))


def random_weight(type: TensorType, rows: int, columns: int, seed: int = 0) -> Weight:
    return Weight((encode(type, rows, columns, seed),), columns)


def decoded(weight: Weight) -> np.ndarray:
    parts = []
    for part in weight.parts:
        data, type = part.data.numpy(), gguf.GGMLQuantizationType(int(part.type))
        stored = {TensorType.F32: np.float32, TensorType.F16: np.float16}.get(part.type)
        values = data.view(stored) if stored else gguf.quants.dequantize(data, type)
        parts.append(values.reshape(part.rows, weight.columns).astype(np.float64))
    return np.concatenate(parts)


def random_x(tokens: int, columns: int, seed: int = 1) -> Tensor:
    return torch.randn(tokens, columns, generator=torch.Generator().manual_seed(seed))


def assert_close(y: Tensor, x: Tensor, weight: Weight) -> None:
    """Each token's result lies within 1e-5 of the float64 product, relative to that product's length."""
    expected = x.double().numpy() @ decoded(weight).T
    error = np.linalg.norm(y.double().numpy() - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert error.max() <= 1e-5


@pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())
@pytest.mark.parametrize("type", FLOATS + QUANTISED, ids=lambda type: type.name)
def test_every_type_equals_the_float64_product(type: TensorType, variant: int) -> None:
    for rows, columns in ((37, 512), (5, 768)):
        weight = random_weight(type, rows, columns)
        for tokens in (1, 2, 3, 7, 64):
            x = random_x(tokens, columns)
            assert_close(native.matmul(x, weight, variant=variant), x, weight)


@pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())
@pytest.mark.parametrize("type", FLOATS + QUANTISED, ids=lambda type: type.name)
def test_rows_decode_as_the_reference_decodes_them(type: TensorType, variant: int) -> None:
    weight = random_weight(type, 9, 512)
    ids = torch.tensor([8, 0, 3, 3])
    expected = decoded(weight)[ids.numpy()]
    np.testing.assert_allclose(native.take_rows(weight, ids, variant).numpy(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("type", FLOATS, ids=lambda type: type.name)
@pytest.mark.parametrize("columns", [1, 7, 33, 80, 301])
def test_float_rows_may_have_any_length(type: TensorType, columns: int) -> None:
    weight = random_weight(type, 19, columns)
    for tokens in (1, 5):
        x = random_x(tokens, columns)
        assert_close(native.matmul(x, weight), x, weight)
    np.testing.assert_array_equal(native.take_rows(weight, torch.arange(19)).numpy(), decoded(weight))


@pytest.mark.parametrize("variant", range(len(native.variants())), ids=native.variants())
@pytest.mark.parametrize("type", FLOATS + QUANTISED, ids=lambda type: type.name)
def test_a_token_s_result_is_the_same_bits_in_any_company(type: TensorType, variant: int) -> None:
    columns = 301 if type in FLOATS else 768
    weight = random_weight(type, 83, columns)
    x = random_x(64, columns)
    alone = torch.cat([native.matmul(row[None], weight, threads=1, variant=variant) for row in x])
    for tokens in (2, 3, 7, 64):
        for threads in (1, 2, 5):
            together = native.matmul(x[:tokens], weight, threads=threads, variant=variant)
            assert torch.equal(together, alone[:tokens])


def test_parts_of_different_types_fill_one_output() -> None:
    weight = Weight(
        (encode(TensorType.Q4_K, 33, 512), encode(TensorType.Q6_K, 7, 512, 2), encode(TensorType.F16, 18, 512, 3)), 512
    )
    for tokens in (1, 6):
        x = random_x(tokens, 512)
        assert_close(native.matmul(x, weight), x, weight)
        wide = torch.full((tokens, 64), 7.0)
        native.matmul(x, weight, out=wide[:, 3:61])
        assert torch.equal(wide[:, 3:61], native.matmul(x, weight))
        assert (wide[:, :3] == 7).all() and (wide[:, 61:] == 7).all()
    ids = torch.tensor([57, 0, 35, 32, 40])
    rows = native.take_rows(weight, ids).numpy()
    np.testing.assert_allclose(rows, decoded(weight)[ids.numpy()], rtol=1e-6, atol=1e-7)


def test_x_may_be_strided_or_of_another_dtype() -> None:
    weight = random_weight(TensorType.Q8_0, 24, 64)
    x = random_x(64, 5).T
    assert torch.equal(native.matmul(x, weight), native.matmul(x.contiguous(), weight))
    narrow = x.to(torch.bfloat16)
    assert torch.equal(native.matmul(narrow, weight), native.matmul(narrow.float(), weight))
    assert native.matmul(x[:0], weight).shape == (0, 24)


def test_what_does_not_fit_is_refused() -> None:
    weight = random_weight(TensorType.Q8_0, 24, 64)
    with pytest.raises(ValueError, match=r"needs \[T, 64\]"):
        native.matmul(torch.zeros(2, 32), weight)
    with pytest.raises(ValueError, match="24 rows"):
        native.take_rows(weight, torch.tensor([24]))
    with pytest.raises(ValueError, match="24 rows"):
        native.take_rows(weight, torch.tensor([-1]))
    with pytest.raises(ValueError, match="out is"):
        native.matmul(torch.zeros(2, 64), weight, out=torch.zeros(2, 25))


def test_types_without_a_kernel_are_not_supported() -> None:
    assert all(native.supports_type(type) for type in FLOATS + QUANTISED)
    assert not native.supports_type(TensorType.TQ1_0)
    part = WeightPart(TensorType.TQ1_0, 2, torch.zeros(2, 54, dtype=torch.uint8))
    assert not native.supports(Weight((part,), 256))


def test_calls_from_several_threads_do_not_mix() -> None:
    weight = random_weight(TensorType.Q4_0, 259, 256)
    inputs = [random_x(tokens, 256, seed) for seed, tokens in enumerate((1, 2, 5, 1, 9, 3))]
    expected = [native.matmul(x, weight, threads=1) for x in inputs]

    def repeat(index: int) -> bool:
        return all(torch.equal(native.matmul(inputs[index], weight, threads=3), expected[index]) for _ in range(200))

    with ThreadPoolExecutor(len(inputs)) as executor:
        assert all(executor.map(repeat, range(len(inputs))))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_while_its_parent_does() -> None:
    weight = random_weight(TensorType.Q4_0, 259, 256)
    x = random_x(3, 256)
    expected = native.matmul(x, weight, threads=3)
    with ThreadPoolExecutor(1) as executor:  # the fork finds the pool at work
        busy = executor.submit(lambda: [native.matmul(x, weight, threads=3) for _ in range(2000)])
        children = []
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(120)
                os._exit(0 if all(torch.equal(native.matmul(x, weight, threads=3), expected) for _ in range(20)) else 1)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
        assert torch.equal(busy.result()[-1], expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.long("interpreters that compute are ended, one after another")
def test_the_interpreter_exits_with_the_pool_awake_or_asleep() -> None:
    """Two interpreters, forked from one that has imported what they need."""
    program = """
import os, sys, time, torch
from antiphon.ops import native
from antiphon.weights.weight import Weight
weight = Weight.from_tensor(torch.randn(64, 64))
for delay in (0, 0.05):
    child = os.fork()
    if child == 0:
        native.matmul(torch.randn(2, 64), weight, threads=3)
        time.sleep(delay)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0, delay
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=120, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_default_threads_are_cores_that_this_process_may_use() -> None:
    assert 1 <= default_threads() <= (os.cpu_count() or 1)
