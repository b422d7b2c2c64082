"""Time the kernels of a step of prompts on an NVIDIA GPU, with random weights of the full shape but few layers.

    python benchmarks/gpu/prefill.py [--shapes qwen3-0.6b,qwen3-8b] [--sweep]

`--sweep` times the attention kernel with every tile, and prints the best ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import torch
from triton.runtime.errors import OutOfResources

from antiphon.bench.random_models.random_model import SHAPES, random_model_of
from antiphon.executor.device.batch import StepSize
from antiphon.executor.device.prompt_steps import PromptSteps
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.recorded import make_recording
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import CacheLayout, Device, KVCache, allocate_arena
from antiphon.ops.cache import OFFSET_UNIT
from antiphon.ops.triton.kernel_launch import Call, Launch
from antiphon.ops.triton.launch import QueryTile
from antiphon.ops.triton.pages import query_tiles
from antiphon.ops.triton.program.limits import seconds
from antiphon.ops.triton.program.prompt_step import LoweredPromptStep

REQUESTS, LENGTH, LAYERS, PAGE = 8, 1024, 3, 16


def graph_seconds(run: Callable[[], None], repeats: int = 1) -> float:
    """Return seconds per run, from a CUDA graph of `repeats` runs."""
    run()
    with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
        for _ in range(repeats):
            run()
    return seconds(graph.replay) / repeats


@torch.inference_mode()
def make_step(model: CausalLM, requests: int, length: int, device: Device) -> LoweredPromptStep:
    """Build a step of whole prompts, with its inputs and block tables in place."""
    layouts = [CacheLayout(group, PAGE, device.compute_type, device.compute_type) for group in model.cache_groups()]
    blocks, unit = -(-length // PAGE), layouts[0].block_bytes
    cache = KVCache(allocate_arena((requests * blocks + 1) * unit, device.torch), layouts)
    store = DeviceRows(requests, layouts, [length], device.torch)
    store.tables[0][:, :blocks] = torch.randperm(requests * blocks).view(requests, -1).int() * (unit // OFFSET_UNIT)
    tokens, rows = requests * length, torch.arange(requests)
    decoder, ends = model.part(TokenDecoder), (rows + 1) * length
    assert decoder is not None
    steps = PromptSteps(make_recording(decoder.step(cache)), store, requests, tokens, device.compute_type)
    parts = (
        torch.randint(0, 100, (tokens,)), torch.arange(length).repeat(requests), rows.repeat_interleave(length),
        torch.zeros(1), ends, torch.full((requests,), length), rows, torch.zeros(requests), ends - 1,
    )  # fmt: skip
    size = StepSize(tokens, requests, requests)
    steps.run(torch.cat(parts).int().to(device.torch), size)
    return steps.step(size)


def work(launch: Launch | Call, pairs: int) -> tuple[float, float]:
    """Return bytes moved and floating-point operations; `pairs` counts queries with each key that they see."""
    given, sizes = launch.arguments, getattr(launch, "constants", {})
    if launch.name == "library product":
        return sum(tensor.nbytes for tensor in given), 2.0 * len(given[0]) * given[1].numel()
    if launch.name == "attention":
        return 2.0 * given[0].nbytes, 4.0 * pairs * sizes["H"] * sizes["D"]
    if launch.name == "heads":
        return REQUESTS * LENGTH * 4.0 * (sizes["H"] + 2 * sizes["HK"]) * sizes["D"], 0.0
    moved = {"norm": given[:2] + given[4:6], "finish": (given[0], given[3])}.get(launch.name, ())
    return float(sum(tensor.nbytes for tensor in moved)), 0.0


def sweep(launch: Launch) -> list[tuple[float, QueryTile]]:
    """Return the six fastest tiles of the attention kernel that compile, with their seconds."""
    launches: dict[QueryTile, Launch] = {}
    for (rows, warps), keys, stages in product(((64, 4), (128, 4), (128, 8), (256, 8)), (32, 64, 128), (2, 3, 4)):
        tile = QueryTile(max(1, rows // launch.constants["G"]), keys, warps, stages)
        tiles = query_tiles(launch.arguments[2], REQUESTS * LENGTH, tile.queries)
        constants = {**launch.constants, "TOKENS": tile.queries, "BT": keys, "STAGES": stages}
        given, grid = (launch.arguments[0], tiles, *launch.arguments[2:]), (len(tiles), launch.grid[1])
        launches[tile] = replace(launch, grid=grid, arguments=given, constants=constants, warps=warps)
    with ThreadPoolExecutor() as pool:
        fits = list(pool.map(compiles, launches.values()))
    return sorted((graph_seconds(launches[tile], 5), tile) for tile, fit in zip(launches, fits, strict=True) if fit)[:6]


def compiles(launch: Launch) -> bool:
    """Compile a kernel; return False if it needs more resources than the card has."""
    try:
        launch()
    except OutOfResources:
        return False
    return True


@torch.inference_mode()
def report(step: LoweredPromptStep, num_layers: int, swept: bool) -> None:
    layer, tokens = 0.0, REQUESTS * LENGTH
    first, second = [place for place, launch in enumerate(step.launches) if launch.name == "heads"][:2]
    for launch in step.launches[first:second]:
        if launch.name == "attention" and isinstance(launch, Launch) and swept:
            for time, tile in sweep(launch):
                print(f"  {time * 1e6:8.1f} µs {tile}")
        time, work_done = graph_seconds(launch, 20), work(launch, tokens * (LENGTH + 1) // 2)
        layer += 0.0 if launch.name == "tiles" else time
        figures = (f"{done / time / 1e12:8.2f} T{unit}/s" for done, unit in zip(work_done, ("B", "FLOP"), strict=True))
        print(f"  {launch.name:16} {time * 1e6:8.1f} µs", *figures)
    whole = graph_seconds(step.run) + (num_layers - LAYERS) * layer
    print(f"  a layer {layer * 1e6:.0f} µs, {num_layers} of them {whole * 1e3:.2f} ms: {tokens / whole:,.0f} tok/s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="qwen3-0.6b,qwen3-8b")
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args()
    for name in options.shapes.split(","):
        print(f"{name}, {REQUESTS} prompts of {LENGTH} tokens")
        card, shape = Device.parse("cuda"), SHAPES[name]
        model = random_model_of(name, shape | {"num_hidden_layers": LAYERS}, device=card).causal_lm()
        report(make_step(model, REQUESTS, LENGTH, card), shape["num_hidden_layers"], options.sweep)
