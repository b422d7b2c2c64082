"""Builds of the kernels for quantised weights, for cards that need not be present."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.ops.triton.quantised.forms import BlockForm
from antiphon.ops.triton.quantised.tiles import row_tile, vector_tile

#: Maximum bytes of shared memory of a program, by compute capability.
SHARED_LIMITS = {80: 163 << 10, 89: 99 << 10, 90: 227 << 10}

_SCALES = {"half": "*fp16", "half_minimum": "*i32", "six_bits": "*i16", "signed": "*i16"}
_TYPES = dict(
    gain="*bf16", words="*i32", bias="*fp32", residual="*fp32", y="*fp32", squares="*fp32", next_gain="*bf16",
    y_scaled="*bf16", next_squares="*fp32", partial="*fp32", counters="*i32", out="*bf16", ids="*i32", scaled="*bf16",
    rows="i32", eps="fp32", scale="fp32", w="*u8", packed="*i32", packed_bytes="*i8",
)  # fmt: skip
_EPILOGUE = dict(ACTIVATION=4, BIAS=False)


@dataclass(frozen=True)
class Build:
    """Kernel with the types of its arguments and its constants."""

    name: str
    kernel: Any
    types: dict[str, str]
    constants: dict[str, Any]
    warps: int = 4


def builds(form: BlockForm, pdl: bool) -> Iterator[Build]:
    """Yield a build of every kernel with the shapes of an 8B model."""
    from antiphon.ops.triton.kernels.quantised.expansion import expand_blocks, gather_blocks
    from antiphon.ops.triton.kernels.quantised.row_product import quantised_row_product
    from antiphon.ops.triton.kernels.quantised.vector_product import quantised_vector_product

    numbers = form.numbers() | {"PDL": pdl}
    types = _TYPES | dict(scales=_SCALES[form.scale], factors="*fp16" if form.scale == "signed" else "*i32")
    for name, n, k, gated in (("gate_up", 12288, 4096, True), ("down", 4096, 12288, False)):
        tile = vector_tile(form, k, n, gated)
        yield Build(
            f"vector {name}", quantised_vector_product, types | dict(x="*i32"),
            numbers | _EPILOGUE | dict(
                K=k, N=n, BN=tile.columns, BLOCKS=tile.blocks, NORM=gated, GATED=gated, RESIDUAL=not gated,
            ), tile.warps,
        )  # fmt: skip
        rows = row_tile(n, k, 132)
        yield Build(
            f"rows {name}", quantised_row_product, types | dict(x="*bf16"),
            numbers | _EPILOGUE | dict(
                K=k, N=n, STRIDE=n, NORM_PARTS=64 if gated else 0, ROWS=64, BN=rows.columns, BLOCKS=rows.blocks,
                SPLITS=rows.splits, GATED=gated, RESIDUAL=not gated, SCALED=not gated,
            ), rows.warps,
        )  # fmt: skip
    yield Build("expand", expand_blocks, types, numbers | dict(K=4096, N=4096, BN=8, BLOCKS=16))
    yield Build("gather", gather_blocks, types | dict(out="*fp32"), numbers | dict(K=4096, BLOCKS=128, SCALED=True))


def fp8_build(pdl: bool) -> Build:
    from antiphon.ops.triton.kernels.quantised.fp8_product import fp8_vector_product

    constants = _EPILOGUE | dict(ROWS=4, K=4096, N=12288, BN=8, BK=512, NORM=True, GATED=True, RESIDUAL=False, PDL=pdl)
    return Build("fp8", fp8_vector_product, _TYPES | dict(x="*fp32", scales="*fp32"), constants)


def resources(build: Build, capability: int) -> tuple[int, int, int]:
    """Compile for a card; return bytes of shared memory per program, and registers and bytes of stack per thread."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = build.kernel.arg_names
    constants = {name: value for name, value in build.constants.items() if name in names}
    signature = {name: "constexpr" if name in constants else build.types[name] for name in names}
    aligned = {(at,): [["tt.divisibility", 16]] for at, name in enumerate(names) if signature[name].startswith("*")}
    values = {(names.index(name),): value for name, value in constants.items()}
    built = triton.compile(
        ASTSource(build.kernel, signature, values, aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": build.warps},
    )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(built.asm["cubin"])
        file.flush()
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
        command = [str(tool), "--dump-resource-usage", file.name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", printed)
    assert found, printed
    return built.metadata.shared, int(found[1]), int(found[2])
