"""What a kernel is compiled for, without its tensors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from antiphon.ops.triton.ahead.variant import Pointer, Variant


def kernel() -> Any:
    def product() -> None: ...

    return SimpleNamespace(fn=product)


def of(*arguments: Any, **keywords: Any) -> Variant:
    made = kernel()
    made.fn.__qualname__ = "product"
    return Variant.of(made, arguments, keywords)


def test_arguments_that_give_the_same_kernel() -> None:
    x, y = torch.zeros(32, dtype=torch.bfloat16), torch.ones(64, dtype=torch.bfloat16)
    assert of(x, 16, 3, 0.5, N=4) == of(y, 4096, 5, 1e-6, N=4)
    assert of(x[8:]) == of(y)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of(1), of(2)),
        (of(2), of(16)),
        (of(16), of(1 << 40)),
        (of(1 << 40), of(1 << 63)),
        (of(2), of(2.0)),
        (of(True), of(False)),
        (of(torch.zeros(4)), of(torch.zeros(4)[1:])),
        (of(torch.zeros(4)), of(torch.zeros(4, dtype=torch.int32))),
        (of(N=16), of(N=32)),
        (of(num_warps=4), of(num_warps=8)),
    ],
)
def test_arguments_that_give_another_kernel(one: Variant, other: Variant) -> None:
    assert one != other


def test_a_pointer_is_what_triton_reads_of_a_tensor() -> None:
    (found,) = of(torch.zeros(4, dtype=torch.float8_e4m3fn)[1:]).arguments
    assert isinstance(found, Pointer)
    assert str(found.dtype) == "torch.float8_e4m3fn" and found.data_ptr() % 16


def test_text() -> None:
    made = of(torch.zeros(4), 16, 0.5, None, True, x=torch.zeros(4)[1:], N=12, PDL=False)
    assert Variant.parse(made.text()) == made
    assert made.name == "product"
