"""Every kernel compiles for the cards that there are, without one, within their shared memory and registers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import pytest

from antiphon.ops import triton
from support.kernels.kernel_builds import SHARED_LIMITS, Build, Resources, builds, compile_build

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or triton.is_interpreted(), reason="kernels are compiled by Triton, not interpreted"
)

Compile = Callable[[int, int], Resources]

#: Bytes of registers that a thread may spill to memory.
MAX_STACK = 32
#: The one instruction whose chains are the sums of batch-invariant mode, whatever the tile.
INVARIANT_PRODUCT = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#: Small kernels that the fast tests compile, to show that Triton compiles ours at all.
QUICK = ("rows.store.row_slots", "sampling.choice.survey_blocks")
INVARIANT = ("products.invariant.invariant_product", "attention.invariant.invariant_attention")
#: Kernels whose tiles fill the shared memory and the registers, which are those of sm_80 on sm_89 too.
TIGHT = ("products.rows.", "attention.decode.", "attention.prefill.")


def tier(capability: int, build: Build) -> str:
    """Return which run compiles a build; on sm_90 alone there is another instruction for batch-invariant tiles."""
    if capability == 90:
        return "fast" if build.kernel in QUICK else "slow"
    return "slow" if capability == 80 and build.kernel.startswith(TIGHT) else "soak"


MARKS = {
    "fast": pytest.mark.long("a process imports Triton, and compiles a kernel"),
    "slow": pytest.mark.slow,
    "soak": pytest.mark.soak,
}
CASES = [
    pytest.param(capability, index, marks=MARKS[tier(capability, build)], id=f"{build.kernel}-{index}-sm_{capability}")
    for capability in SHARED_LIMITS
    for index, build in enumerate(builds(capability))
]


def compile_numbered(capability: int, index: int) -> Resources:
    return compile_build(list(builds(capability))[index], capability)


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest) -> Iterator[Compile]:
    """The builds of the tests that run, compiled side by side. Workers of xdist compile what each of them tests."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        yield compile_numbered
        return
    wanted = [item.callspec.params for item in request.session.items if item.originalname == "test_compiles"]
    keys = [(params["capability"], params["index"]) for params in wanted]
    workers = min(len(os.sched_getaffinity(0)), 4)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {key: pool.submit(compile_numbered, *key) for key in keys}
        yield lambda capability, index: futures[capability, index].result()


def test_every_kernel_has_a_build() -> None:
    """Functions that others call have names that begin with an underscore, or are in files without a kernel."""
    folder = Path(triton.__file__).parent / "kernels"
    helpers = {
        "products.activations", "products.prefetch", "attention.pages", "attention.fp8", "sampling.noise",
        "sampling.filters",
    }  # fmt: skip
    built = {build.kernel.rpartition(".")[0] for build in builds(90)}
    modules = {f"{path.parent.name}.{path.stem}" for path in folder.glob("*/*.py") if path.stem != "__init__"}
    # test_quantised_compiles.py builds those of quantised weights.
    assert {name for name in modules - helpers - built if not name.startswith("quantised.")} == set()


@pytest.mark.parametrize(("capability", "index"), CASES)
def test_compiles(capability: int, index: int, compiled: Compile) -> None:
    used = compiled(capability, index)
    build = list(builds(capability))[index]
    print(f"{build.kernel} sm_{capability}: {used}")
    # Builds for sm_80 and sm_89 take the same shared memory, of which sm_89 has less.
    limit = min(SHARED_LIMITS[80], SHARED_LIMITS[89]) if capability < 90 else SHARED_LIMITS[capability]
    assert used.shared <= limit, f"{build.kernel} needs {used.shared} bytes of shared memory"
    assert used.stack <= MAX_STACK, f"{build.kernel} spills {used.stack} bytes of registers a thread"
    if build.kernel in INVARIANT:
        assert used.products == {INVARIANT_PRODUCT}, f"{build.kernel}: tiles may differ in the order of a sum"
