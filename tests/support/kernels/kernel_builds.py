"""Builds of the Triton kernels for cards that need not be present, with the resources that each build takes."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from antiphon.ops.triton.invariant.tiles import PART_TOKENS, attention_tile, product_tile
from antiphon.ops.triton.launch import decode_tile, prefill_tile, row_warps, sequence_tile, vector_tile
from antiphon.ops.triton.sound import frame_norm

#: Maximum bytes of shared memory of a program, by compute capability.
SHARED_LIMITS = {80: 163 << 10, 89: 99 << 10, 90: 227 << 10}

_KERNELS = "antiphon.ops.triton.kernels"
_HALF, _WIDE, _INT, _LONG = "*bf16", "*fp32", "*i32", "*i64"
_PAGES: dict[str, Any] = dict(
    seq_lens=_INT, rows=_INT, tables=_INT, keys=_HALF, values=_HALF, key_scales="*fp16", value_scales="*fp16",
    balance=_WIDE, sinks=_WIDE, out=_HALF, table_stride="i32", key_base="i32", value_base="i32", key_scale_base="i32",
    value_scale_base="i32", scale="fp32", softcap="fp32",
)  # fmt: skip
_DECODE = _PAGES | dict(
    qkv=_WIDE, q_gain=_WIDE, k_gain=_WIDE, angles=_WIDE, partial=_WIDE, tops=_WIDE, totals=_WIDE, counters=_INT,
    qkv_stride="i32", eps="fp32", packed=_INT, packed_bytes="*i8",
)  # fmt: skip
_PREFILL = _PAGES | dict(queries=_HALF, tiles=_INT, query_start=_INT, query_stride="i32")
_INVARIANT = _PREFILL | dict(partial=_WIDE, tops=_WIDE, totals=_WIDE, max_parts="i32")
_ROWS = dict(
    x=_HALF, squares=_WIDE, w=_HALF, bias=_WIDE, residual=_WIDE, next_gain=_WIDE, y=_WIDE, y_scaled=_HALF,
    next_squares=_WIDE, partial=_WIDE, counters=_INT, eps="fp32",
)  # fmt: skip
_HEADS = dict(
    q=_HALF, k=_HALF, v=_HALF, q_gain=_WIDE, k_gain=_WIDE, angles=_WIDE, positions=_INT, slots=_LONG, keys=_HALF,
    values=_HALF, key_scales="*fp16", value_scales="*fp16", balance=_WIDE, q_out=_HALF, k_out=_HALF, q_stride="i32",
    q_head_stride="i32", k_stride="i32", k_head_stride="i32", v_stride="i32", v_head_stride="i32", key_base="i32",
    value_base="i32", key_scale_base="i32", value_scale_base="i32", q_eps="fp32", k_eps="fp32",
)  # fmt: skip
_SEQUENCE = dict(
    q=_HALF, k=_HALF, v=_HALF, bias=_WIDE, tiles=_INT, starts=_INT, out=_HALF, q_stride="i32", q_head_stride="i32",
    k_stride="i32", k_head_stride="i32", v_stride="i32", v_head_stride="i32", bias_stride="i32",
    bias_row_stride="i32", scale="fp32",
)  # fmt: skip


@dataclass(frozen=True)
class Build:
    """Kernel (`folder.module.name`) with the types of its arguments and its constants."""

    kernel: str
    types: dict[str, str]
    constants: dict[str, Any]
    warps: int = 4
    stages: int = 3
    fuses: bool = True  # fuse a product and a sum into an instruction


@dataclass(frozen=True)
class Resources:
    """Resources of a build: bytes of shared memory; registers and bytes of stack (spills) per thread.

    `products` are its instructions for matrix products.
    """

    shared: int
    registers: int
    stack: int
    products: frozenset[str] = frozenset()


def _decode(channels: int, pages: str, **changes: Any) -> Build:
    tile = decode_tile(torch.bfloat16, channels, 2 if pages == _HALF else 1)
    plain = dict(
        H=16, HK=8, D=channels, DB=channels, ROTATED=channels, PAGE=16, WINDOW=0, SINK_TOKENS=0, NORM=True,
        SOFTCAP=False, SINKS=False, BALANCED=False, NEW=True, GROUP=16, SPLITS=4, JOINED=2, BT=tile.tokens,
        STAGES=tile.stages, EARLY=channels <= 128, PACKED=False,
    )  # fmt: skip
    types = _DECODE | dict(keys=pages, values=pages)
    return Build("attention.decode.decode_attention", types, plain | changes, tile.warps)


def _prefill(channels: int, pages: str, queries: int, **changes: Any) -> Build:
    tile = prefill_tile(torch.bfloat16, channels, 2, queries, 2 if pages == _HALF else 1)
    plain = dict(
        H=16, HK=8, D=channels, DB=channels, PAGE=16, CAUSAL=True, WINDOW=0, SINK_TOKENS=0, SOFTCAP=False, SINKS=False,
        BALANCED=False, G=2, TOKENS=tile.queries, BT=tile.tokens, STAGES=tile.stages,
    )  # fmt: skip
    types = _PREFILL | dict(keys=pages, values=pages)
    return Build("attention.prefill.prefill_attention", types, plain | changes, tile.warps)


def _vector(rows: int, inputs: int, outputs: int, gated: bool) -> Build:
    tile = vector_tile(rows, inputs, outputs)
    constants = dict(
        ROWS=rows, K=inputs, N=outputs, BN=tile.columns, BK=tile.depth, NORM=True, GATED=gated, ACTIVATION=4,
        BIAS=False, RESIDUAL=False, LOOP=2 if rows > 1 else 0,
    )  # fmt: skip
    types = dict(x=_WIDE, gain=_WIDE, w=_HALF, bias=_WIDE, residual=_WIDE, y=_HALF, eps="fp32")
    return Build("products.vector.vector_product", types, constants, tile.warps)


def _rows(inputs: int, outputs: int, columns: int, depth: int, splits: int, warps: int, **changes: Any) -> Build:
    plain = dict(
        K=inputs, N=outputs, NORM_PARTS=0, ROWS=32, BN=columns, BK=depth, SPLITS=splits, GATED=False, ACTIVATION=0,
        BIAS=False, RESIDUAL=True, SCALED=True, EARLY=True,
    )  # fmt: skip
    return Build("products.rows.row_product", _ROWS, plain | changes, warps)


def _invariant(rows: int, outputs: int, gated: bool) -> Build:
    tile = product_tile(torch.bfloat16, rows, outputs, gated, 132)
    constants = dict(
        K=1024, N=outputs, BM=tile.rows, BN=tile.columns, BK=64, GATED=gated, ACTIVATION=4 if gated else 0, BIAS=False,
        RESIDUAL=not gated,
    )  # fmt: skip
    types = dict(x=_HALF, w=_HALF, bias=_WIDE, residual=_WIDE, y=_HALF, rows="i32")
    return Build("products.invariant.invariant_product", types, constants, tile.warps, tile.stages, False)


def _invariant_attention(channels: int, pages: str, splits: int, **changes: Any) -> Build:
    tile = attention_tile(torch.bfloat16, channels, 2)
    plain = dict(
        H=16, HK=8, D=channels, DB=channels, PAGE=16, CAUSAL=True, WINDOW=0, SINK_TOKENS=0, SOFTCAP=False, SINKS=False,
        BALANCED=False, G=2, TOKENS=tile.queries, BT=tile.tokens, PART=PART_TOKENS, SPLITS=splits, STAGES=tile.stages,
    )  # fmt: skip
    types = _INVARIANT | dict(keys=pages, values=pages)
    kernel = "attention.invariant.invariant_attention"
    return Build(kernel, types, plain | changes, tile.warps, fuses=False)


def invariant_builds() -> Iterator[Build]:
    for rows, outputs, gated in ((1, 1024, False), (16, 12288, True), (256, 4096, False), (8192, 12288, True)):
        yield _invariant(rows, outputs, gated)
    yield _invariant_attention(128, _HALF, 1)
    yield _invariant_attention(128, _HALF, 8)
    yield _invariant_attention(128, "*i8", 1, WINDOW=64, SINK_TOKENS=4, SOFTCAP=True, SINKS=True, BALANCED=True)
    tile = attention_tile(torch.bfloat16, 128, 2)
    constants = dict(H=16, HK=8, D=128, DB=128, CAUSAL=True, SINKS=False, G=2, TOKENS=tile.queries, PART=PART_TOKENS)
    yield Build("attention.invariant.join_parts", _INVARIANT, constants, tile.warps, fuses=False)


def builds(capability: int) -> Iterator[Build]:
    """Yield builds with the types and tiles that models of 0.6B and 8B use on a card of this compute capability."""
    yield _vector(1, 1024, 3072, True)
    yield _vector(4, 4096, 4096, False)
    yield _rows(1024, 4096, 64, 256, 2, 4, NORM_PARTS=64, RESIDUAL=False, SCALED=False)
    yield _rows(1024, 3072, 16, 256, 1, 2, GATED=True, ACTIVATION=4, RESIDUAL=False, SCALED=False)
    yield _rows(3072, 1024, 16, 128, 2, 2)
    yield _decode(128, _HALF)
    yield _decode(128, "*i8", WINDOW=64, SINK_TOKENS=4, SOFTCAP=True, SINKS=True, BALANCED=True)
    eight = "*fp8e4nv" if capability >= 89 else "*u8"
    yield _decode(128, eight)
    yield _prefill(128, eight, 512)
    yield _decode(256, _HALF, NEW=False, NORM=False, ROTATED=0)
    yield _prefill(128, _HALF, 512)
    yield _prefill(128, "*i8", 8, WINDOW=64, SINK_TOKENS=4, SOFTCAP=True, SINKS=True, BALANCED=True)
    yield _prefill(128, "*i8", 512)
    yield _prefill(64, _HALF, 512)
    yield _prefill(256, _HALF, 512)
    tile = sequence_tile(torch.bfloat16, 64)
    sizes = dict(SHARED=1, H=8, D=64, DB=64, CAUSAL=False, BIAS=False, BM=tile.queries, BT=tile.tokens)
    yield Build("attention.sequence.sequence_attention", _SEQUENCE, sizes | {"STAGES": tile.stages}, tile.warps)
    heads = dict(H=32, HK=8, D=128, DB=128, HB=32, HKB=8, ROTATED=128, PAGE=16, BALANCED=False, STORE=True)
    yield Build("attention.heads.prepare_heads", _HEADS, heads | dict(Q_NORM=True, K_NORM=True))
    yield from _rotation_builds(eight)
    yield from _choice_builds()
    yield from _small_builds()
    yield from invariant_builds()
    yield from _sound_builds()


def _rotation_builds(eight: str) -> Iterator[Build]:
    """Yield builds for the heads of 0.6B and 8B models, with pages of 16 and of 8 bits."""
    for heads, pages, balanced in ((16, _HALF, False), (32, "*i8", True), (32, eight, False)):
        sizes = dict(H=heads, HK=8, D=128, DB=128, HALFB=64, HB=heads, HKB=8, PAGE=16, BALANCED=balanced)
        types = _HEADS | dict(keys=pages, values=pages)
        yield Build(
            "attention.rotation.rotate_heads", types, sizes | dict(Q_NORM=True, K_NORM=True), row_warps(heads * 128)
        )


def _choice_builds() -> Iterator[Build]:
    """Yield builds of sampling with and without filters, and of the logit edits before it."""
    types = dict(
        logits=_WIDE, temperature=_WIDE, seed=_LONG, index=_LONG, rows=_INT, best=_WIDE, tokens=_INT, tops=_WIDE,
        sums=_WIDE, maxima=_WIDE, top_k=_INT, top_p=_WIDE, min_p=_WIDE, block_tokens=_INT, listed=_INT,
        last_token=_INT, length=_INT, drawn=_INT, stride="i32", parameter_stride="i32", long_stride="i32", V="i32",
        num_blocks="i32", num_groups="i32", given=_INT, offsets=_INT,
    )  # fmt: skip
    for filtered, chained in ((False, False), (True, False), (True, True)):
        absent = {} if filtered else dict.fromkeys(("tops", "sums", "maxima"))
        block, blocks = (1024, 256) if filtered else (2048, 128)
        yield Build(
            "sampling.choice.survey_blocks", types, dict(BLOCK=block, FILTERED=filtered, CHAINED=chained) | absent
        )
        absent = {} if filtered else absent | {"listed": None}
        sizes = dict(BLOCKS=blocks, GROUPS=4096, CHUNK=32, FILTERED=filtered, CHAINED=chained)
        yield Build("sampling.choice.choose_tokens", types, sizes | absent, 8 if filtered else 4)
    lists = dict(
        logits=_WIDE, masks="*u8", mask_index=_INT, allowed_start=_INT, allowed_ids=_INT, kept=_WIDE, banned_start=_INT,
        banned_ids=_INT, spans=_INT, bias_start=_INT, bias_ids=_INT, bias=_WIDE, penalties=_WIDE, slots=_INT, ids=_INT,
        counts=_INT, num_ids=_INT, typical=_WIDE, tokens=_LONG, stride="i32", mask_stride="i32", capacity="i32",
        V="i32",
    )  # fmt: skip
    every = dict(MASKS=True, ALLOWED=True, BANNED=True, SPANS=True, BLOCK=4096)
    yield Build("sampling.logit_edits.restrict_logits", lists, every, 8)
    yield Build("sampling.logit_edits.shift_logits", lists, dict(BIAS=True, PENALTIES=True, BLOCK=512))
    yield Build("sampling.logit_edits.keep_typical", lists, dict(BLOCK=4096), 8)
    yield Build("sampling.logit_edits.count_drawn", lists, dict(BLOCK=512))


def _small_builds() -> Iterator[Build]:
    types = dict(
        x=_WIDE, residual=_WIDE, gain=_WIDE, bias=_WIDE, y=_HALF, total=_WIDE, rows="i32", x_stride="i32",
        x_inner_stride="i32", residual_stride="i32", residual_inner_stride="i32", inner="i32", eps="fp32",
    )  # fmt: skip
    yield Build(
        "rows.norms.norm_rows", types, dict(WIDTH=4096, BLOCK=4096, ROWS=1, CENTRED=True, BIAS=True, RESIDUAL=True), 8
    )
    sizes = dict(WIDTH=1024, BLOCK=1024, ROWS=2, CENTRED=False, BIAS=False, RESIDUAL=True)
    yield Build("rows.norms.norm_rows", types | dict(x=_HALF), sizes)
    types = dict(ids=_INT, table=_HALF, out=_WIDE, gain=_WIDE, scaled=_HALF, squares=_WIDE, scale="fp32")
    yield Build("rows.embedding.gather_scaled", types, dict(WIDTH=4096, BLOCK=4096, SCALED=True, ROWS=32))
    names = (
        "rows", "given", "offsets", "last_token", "length", "cross_tokens", "adapter", "token_ids", "positions",
        "seq_lens", "cross_lens", "table_rows", "adapters", "table",
    )  # fmt: skip
    types = dict.fromkeys(names, _INT) | dict(slots=_LONG, count="i32", stride="i32")
    yield Build("rows.store.decode_inputs", types, dict(BLOCK=256, CHAINED=True))
    yield Build("rows.store.row_slots", types, dict(PAGE=16, BLOCK=64))
    yield Build("rows.store.grow_rows", types, dict(BLOCK=64, CHAINED=True))
    gate = dict(N=12288, ROWS=2, BLOCK=1024, GATED=True, ACTIVATION=4, BIAS=True, RESIDUAL=True)
    types = dict(x=_HALF, bias=_WIDE, residual=_WIDE, y=_WIDE, rows="i32")
    yield Build("products.epilogue.finish_product", types, gate)
    names = (
        "given", "positions", "token_rows", "rows", "grown", "last_token", "length", "table", "token_ids",
    )  # fmt: skip
    types = dict.fromkeys(names, _INT) | dict(slots=_LONG, tokens="i32", requests="i32", stride="i32")
    yield Build("rows.prompt.prompt_inputs", types, dict(PAGE=16, FIRST=True, REQUESTS=256, BLOCK=256))
    yield Build("rows.store.scatter_words", dict(store=_INT, changes=_INT, count="i32"), {"BLOCK": 256})
    types = dict(starts=_INT, tiles=_INT, first="i32", num_requests="i32", num_tiles="i32", TOKENS="i32")
    scores = {name: _DECODE[name] for name in ("seq_lens", "rows", "tables", "keys", "key_scales", "balance")}
    strides = ("q_stride", "q_head_stride", "num_queries", "table_stride", "key_base", "key_scale_base", "width")
    scores |= dict(q=_HALF, chosen=_INT, requests=_INT, out=_WIDE, scale="fp32") | dict.fromkeys(strides, "i32")
    sizes = dict(SHARED=1, D=64, DB=64, PAGE=16, BALANCED=False, BT=128)
    yield Build("attention.scores.paged_scores", scores, sizes)
    means = dict(x=_HALF, starts=_INT, y=_WIDE, x_stride="i32")
    yield Build("rows.pooling.mean_rows", means, dict(WIDTH=384, BLOCK=128, ROWS=32))
    yield Build("attention.tiles.list_tiles", types, dict(REQUESTS=256, BLOCK=128))


def _sound_builds() -> Iterator[Build]:
    types = dict(
        x=_WIDE, lengths=_LONG, means=_WIDE, squares=_WIDE, scale=_WIDE, mean=_WIDE, factor=_WIDE, shift=_WIDE,
        alpha=_WIDE, y="*fp16", num_frames="i32", num_channels="i32", num_parts="i32", scale_stride="i32",
        shift_stride="i32", eps="fp32", slope="fp32",
    )  # fmt: skip
    part = dict(FRAMES=frame_norm.PART_FRAMES, CHANNELS=frame_norm.PART_CHANNELS)
    yield Build("sound.frame_norm.part_moments", types, part, 8)
    yield Build("sound.frame_norm.row_moments", types, part | dict(PARTS=frame_norm.MAX_PARTS), 8)
    result = dict(FUNCTION=2, FRAMES=frame_norm.FRAMES, CHANNELS=frame_norm.CHANNELS)
    yield Build("sound.frame_norm.norm_frames", types, result)


def compile_build(build: Build, capability: int) -> Resources:
    """Compile a kernel for a compute capability and measure its resources; needs no GPU."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, _, name = build.kernel.rpartition(".")
    kernel = getattr(import_module(f"{_KERNELS}.{module}"), name)
    constants = dict(build.constants)
    if "PDL" in kernel.arg_names:
        constants["PDL"] = capability >= 90
    signature = {name: "constexpr" if name in constants else build.types[name] for name in kernel.arg_names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(kernel.arg_names)
        if signature[name].startswith("*") or name.endswith(("stride", "_base"))
    }
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    built = triton.compile(
        ASTSource(kernel, signature, values, aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": build.warps, "num_stages": build.stages, "enable_fp_fusion": build.fuses},
    )
    registers, stack = _usage(Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump", built.asm["cubin"])
    products = frozenset(re.findall(r"(?:wgmma\.mma_async|mma\.sync)[.\w]*", built.asm["ptx"]))
    return Resources(built.metadata.shared, registers, stack, products)


def _usage(tool: Path, cubin: bytes) -> tuple[int, int]:
    """Return the registers and the bytes of stack of a thread."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", printed)
    assert found, printed
    return int(found[1]), int(found[2])
