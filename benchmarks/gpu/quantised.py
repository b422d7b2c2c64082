"""Time the products with block-quantised weights on an NVIDIA GPU: microseconds, and the share of the card's bandwidth.

    python benchmarks/gpu/quantised.py                               # the tiles that the engine uses
    python benchmarks/gpu/quantised.py --sweep --types Q4_K --rows 1   # every tile; the best ones are printed
    python benchmarks/gpu/quantised.py --shapes gate_up,down --rows 1,8,32

Every product is checked against the expanded weights. Each launch of a graph reads another copy of the weights, so that
no read hits the L2 cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from antiphon.ops.triton.kernel_launch import run_now
from antiphon.ops.triton.launch import card, counters, empty
from antiphon.ops.triton.normed import Normed
from antiphon.ops.triton.quantised.activations import packed_words
from antiphon.ops.triton.quantised.forms import BLOCK, FORMS, GROUP, WIDTH
from antiphon.ops.triton.quantised.launches import (
    Product,
    expansion_launch,
    pack_launch,
    row_launch,
    vector_launch,
)
from antiphon.ops.triton.quantised.repacking import BlockRows
from antiphon.ops.triton.quantised.tiles import BlockRowTile, BlockVectorTile, row_tile, vector_tile
from antiphon.ops.types import Activation
from antiphon.weights.types import TensorType

#: Total bytes of a weight's copies; several times the L2 cache.
COPIES_BYTES = 400 << 20
REPEATS = 5


@dataclass(frozen=True)
class Shape:
    """Product of Qwen3-8B: rows and columns of the weight, and the operations fused into it."""

    name: str
    n: int
    k: int
    norm: bool = False
    gated: bool = False
    residual: bool = False


SHAPES = (
    Shape("qkv", 6144, 4096, norm=True),
    Shape("out", 4096, 4096, residual=True),
    Shape("gate_up", 24576, 4096, norm=True, gated=True),
    Shape("down", 4096, 12288, residual=True),
    Shape("head", 151936, 4096, norm=True),
)


def random_rows(type: TensorType, n: int, k: int) -> BlockRows:
    """Return random codes with scales that give elements about as large as a trained model's."""
    form = FORMS[type]
    tiles = (-(-n // WIDTH), -(-k // (BLOCK * GROUP)))
    words = torch.randint(-(2**31), 2**31 - 1, (*tiles, form.planes, GROUP, WIDTH), dtype=torch.int32, device="cuda")
    size = 0.02 / (1 << (form.low_bits + form.high_bits - 1))
    halves = (torch.rand(*tiles, GROUP, WIDTH, 2, device="cuda") * size).half()
    factors = torch.empty(0, dtype=torch.int32, device="cuda")
    if form.scale == "half":
        scales = halves[..., 0].contiguous()
    elif form.scale == "half_minimum":
        scales = halves.view(torch.int32)[..., 0].contiguous()
    else:
        limit = 0x3F3F if form.scale == "six_bits" else 0x7FFF
        scales = torch.randint(0, limit, (*tiles, GROUP, WIDTH), dtype=torch.int16, device="cuda") & limit
        halves = halves[..., 0, :, :] / 64
        factors = halves.view(torch.int32)[..., 0].contiguous()
        if form.scale == "signed":
            factors = halves[..., 0].contiguous()
    return BlockRows(type, n, k, words, scales, factors)


def copies(piece: BlockRows) -> list[BlockRows]:
    count = max(2, -(-COPIES_BYTES // piece.nbytes))
    return [piece] + [
        BlockRows(
            piece.type, piece.rows, piece.columns, piece.words.clone(), piece.scales.clone(), piece.factors.clone()
        )
        for _ in range(count - 1)
    ]


def microseconds(launches: list[Callable[[], None]]) -> float:
    """Return microseconds per launch, from a graph of all launches; the best of a few replays."""
    for launch in launches[:2]:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    times = []
    for _ in range(REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times) * 1000 / len(launches)


@dataclass
class Case:
    """Product of a shape and type with `rows` rows of activations, ready to be launched with any tile."""

    shape: Shape
    pieces: list[BlockRows]
    rows: int

    def __post_init__(self) -> None:
        shape = self.shape
        self.columns = shape.n // 2 if shape.gated else shape.n
        self.activation: Activation = "silu_gate" if shape.gated else "none"
        kind = torch.float32 if self.rows == 1 and shape.norm else torch.bfloat16
        self.x = torch.randn(self.rows, shape.k, device="cuda").to(kind)
        self.gain = torch.rand(shape.k, device="cuda").bfloat16() if self.rows == 1 and shape.norm else None
        self.residual = torch.randn(self.rows, self.columns, device="cuda") if shape.residual else None
        self.y = torch.empty(self.rows, self.columns, device="cuda")
        norm = None if self.gain is None else Normed(self.x, self.gain, 1e-6)
        self.product = Product(self.x, self.y, self.rows, self.activation, residual=self.residual, norm=norm)
        self.on, self.scratch = card(self.x.device), partial(empty, self.x.device)
        self.packed = self.scratch((packed_words(shape.k),), torch.int32)
        if self.rows == 1:
            run_now([pack_launch(self.product, self.packed, self.on)])

    def launch(self, piece: BlockRows, tile: BlockVectorTile | BlockRowTile) -> None:
        if isinstance(tile, BlockVectorTile):
            launch = vector_launch(piece, 0, self.packed, self.product, self.on, tile)
        else:
            own_counters = counters(self.x.device, self.columns)
            launch = row_launch(piece, 0, 0, self.product, own_counters, self.scratch, self.on, tile)
        run_now([launch])

    def time(self, tile: BlockVectorTile | BlockRowTile) -> float:
        return microseconds([partial(self.launch, piece, tile) for piece in self.pieces])

    def error(self, tile: BlockVectorTile | BlockRowTile) -> float:
        """Return a product's relative error against float64 products with the expanded weights."""
        self.y.fill_(torch.nan)
        self.launch(self.pieces[0], tile)
        exact = self.expected()
        return float((self.y.double() - exact).norm() / exact.norm())

    def expected(self) -> Tensor:
        matrix = torch.empty(self.shape.n, self.shape.k, device="cuda")
        expansion_launch(self.pieces[0], matrix)()
        x = self.x.double()
        if self.gain is not None:
            x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.gain.double()
        y = torch.cat([x @ rows.double().T for rows in matrix.split(8192)], dim=1)
        if self.shape.gated:
            gate, value = y.chunk(2, dim=-1)
            y = torch.nn.functional.silu(gate) * value
        return y if self.residual is None else y + self.residual

    def default_tile(self) -> BlockVectorTile | BlockRowTile:
        if self.rows == 1:
            return vector_tile(self.pieces[0].form, self.shape.k, self.columns, self.shape.gated)
        return row_tile(self.columns, self.shape.k, self.on.multiprocessors)

    def tiles(self) -> Iterator[BlockVectorTile | BlockRowTile]:
        blocks = self.shape.k // BLOCK
        for columns in (8, 16, 32, 64) if self.rows == 1 else (16, 32, 64):
            for warps in (1, 2, 4, 8) if self.rows == 1 else (2, 4, 8):
                if self.rows == 1:
                    for each in (1, 2):  # blocks of four columns per thread
                        size = 128 * warps * each // columns
                        if 8 <= size <= blocks:
                            yield BlockVectorTile(columns, size, warps)
                else:
                    for size in (8, 16):
                        for splits in (1, 2, 4, 8):
                            yield BlockRowTile(columns, size, splits, warps)


def best_tiles(case: Case, workers: int) -> list[tuple[float, BlockVectorTile | BlockRowTile]]:
    """Return the four fastest tiles of a sweep with their microseconds. Kernels are compiled in parallel."""
    tiles = list(case.tiles())

    def compiles(tile: BlockVectorTile | BlockRowTile) -> bool:
        try:
            case.launch(case.pieces[0], tile)
        except Exception as problem:
            print(f"  {tile}: {str(problem).splitlines()[0][:100]}")
            return False
        return True

    with ThreadPoolExecutor(workers) as pool:
        usable = [tile for tile, good in zip(tiles, pool.map(compiles, tiles), strict=True) if good]
    torch.cuda.synchronize()
    return sorted(((case.time(tile), tile) for tile in usable), key=lambda timed: timed[0])[:4]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time products with block-quantised weights.")
    parser.add_argument("--types", default="Q4_K,Q6_K,Q8_0,Q4_0,Q4_1", help="Types, separated by commas.")
    parser.add_argument("--shapes", default=",".join(shape.name for shape in SHAPES), help="Shapes of Qwen3-8B.")
    parser.add_argument("--rows", default="1,32", help="Numbers of rows of activations, up to 64.")
    parser.add_argument("--sweep", action="store_true", help="Try every tile and print the best four.")
    parser.add_argument("--workers", type=int, default=12, help="Threads that compile kernels.")
    parser.add_argument("--bandwidth", type=float, default=4.40, help="Bandwidth of the card's memory, in TB/s.")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}; shares are of {options.bandwidth} TB/s")
    print(f"{'type':5} {'shape':8} {'rows':>4} {'us':>8} {'floor':>7} {'share':>6} {'error':>8}  tile", flush=True)
    for name in options.types.split(","):
        for shape in SHAPES:
            if shape.name not in options.shapes.split(","):
                continue
            pieces = copies(random_rows(TensorType[name], shape.n, shape.k))
            floor = pieces[0].nbytes / options.bandwidth / 1e6
            for rows in map(int, options.rows.split(",")):
                case = Case(shape, pieces, rows)
                if options.sweep:
                    timed = best_tiles(case, options.workers)
                else:
                    timed = [(case.time(case.default_tile()), case.default_tile())]
                for time, tile in timed:
                    print(
                        f"{name:5} {shape.name:8} {rows:4} {time:8.1f} {floor:7.1f} {floor / time:6.0%} "
                        f"{case.error(tile):8.1e}  {tile}",
                        flush=True,
                    )
            if shape.name != "head":
                out = torch.empty(shape.n, shape.k, dtype=torch.bfloat16, device="cuda")
                time = microseconds([expansion_launch(piece, out) for piece in pieces[:8]])
                least = (pieces[0].nbytes + out.nbytes) / options.bandwidth / 1e6
                print(f"{name:5} {shape.name:8} expanded {time:8.1f} {least:7.1f} {least / time:6.0%}", flush=True)
            del pieces


if __name__ == "__main__":
    main()
