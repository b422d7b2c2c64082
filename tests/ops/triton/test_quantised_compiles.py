"""The kernels for quantised weights compile for the cards that there are, without one, and spill no registers."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from antiphon.ops.triton.quantised.forms import FORMS
from antiphon.weights.types import TensorType
from support.kernels.quantised_builds import SHARED_LIMITS, Build, builds, fp8_build, resources

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") == "1", reason="Triton compiles nothing here"
)


def check(build: Build, capability: int) -> None:
    shared, registers, stack = resources(build, capability)
    print(f"{build.name} sm_{capability}: {shared} bytes of shared memory, {registers} registers, {stack} of stack")
    assert shared <= SHARED_LIMITS[capability]
    assert stack == 0


def test_one_kernel_compiles() -> None:
    check(next(build for build in builds(FORMS[TensorType.Q4_K], True) if build.name == "vector down"), 90)


def slow_in(capability: int, chosen: bool) -> pytest.MarkDecorator:
    """Return the mark of a build: what differs most from the others is compiled by every `make test-all`."""
    return pytest.mark.slow if capability == 80 and chosen else pytest.mark.soak


NAMES = ("vector gate_up", "rows gate_up", "vector down", "rows down", "expand", "gather")
#: Each kernel once, and both epilogues.
CHOSEN = ("vector gate_up", "rows down", "expand", "gather")
BLOCKS = [
    pytest.param(
        type,
        name,
        capability,
        marks=slow_in(capability, type is TensorType.Q6_K and name in CHOSEN),
        id=f"{type.name}-{name}-{capability}",
    )
    for type in FORMS
    for name in NAMES
    for capability in SHARED_LIMITS
]


@pytest.mark.parametrize(("type", "name", "capability"), BLOCKS)
def test_block_kernels_compile(type: TensorType, name: str, capability: int) -> None:
    found = {build.name: build for build in builds(FORMS[type], capability >= 90)}
    assert tuple(found) == NAMES
    check(found[name], capability)


@pytest.mark.parametrize("capability", [pytest.param(card, marks=slow_in(card, True)) for card in SHARED_LIMITS])
def test_fp8_kernel_compiles(capability: int) -> None:
    check(fp8_build(capability >= 90), capability)
