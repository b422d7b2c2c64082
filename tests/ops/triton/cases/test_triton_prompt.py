"""A step with chunks of prompts lowered to kernels: the reference's logits and pages, padding stored nowhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from antiphon import ops
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.recorded import make_recording
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import KVCache, allocate_arena
from antiphon.ops.program import Recording
from antiphon.ops.triton.launch import card
from antiphon.ops.triton.program.gathering import gather_early
from antiphon.ops.triton.program.prompt_step import LoweredPromptStep, PromptWords
from antiphon.ops.triton.quantised.workspace import ProductWorkspace
from antiphon.ops.triton.weights import MATRIX, prepare_weights
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight
from ops.triton.cases.test_triton_program import COMMON, build, gpt2, qwen2, qwen3
from support.kernels.paged import PagedRunner
from support.kernels.triton_cases import error

Make = Callable[[int], transformers.PretrainedConfig]
MAX_TOKENS, BLOCK_TOKENS = 48, 16
#: Weights that are quantised, by rows: the outputs of attention and of the gated layers.
QUANTISED_ROWS = 64
#: Tokens, requests and rows of logits that a step has room for beyond what it needs.
PADDING = (5, 2, 3)


def llama(layers: int) -> transformers.PretrainedConfig:
    return transformers.LlamaConfig(**COMMON, num_hidden_layers=layers, intermediate_size=96, head_dim=64)


def gemma3(layers: int) -> transformers.PretrainedConfig:
    """Norms after attention too, and layers that see a window."""
    return transformers.Gemma3TextConfig(
        **COMMON, num_hidden_layers=layers, intermediate_size=96, head_dim=32, sliding_window=9,
        query_pre_attn_scalar=24, layer_types=["full_attention", "sliding_attention"][:layers],
    )  # fmt: skip


#: Models with two layers; the interpreter is slow.
DEEP = (llama, gemma3)


@dataclass
class World:
    """Requests with tokens in the pages: what the reference makes of a step with chunks and decodes, and the words of
    that step.
    """

    model: CausalLM
    on_device: CausalLM
    counts: list[int]  # tokens of the step by request
    device: torch.device
    half: torch.dtype
    page_type: torch.dtype
    lengths: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        source = torch.Generator().manual_seed(sum(self.counts))
        count, vocab = len(self.counts), self.model.vocab_size
        self.lengths = [
            int(torch.randint(1 if n == 1 else 0, MAX_TOKENS - n, (1,), generator=source)) for n in self.counts
        ]
        tokens = [
            torch.randint(0, vocab, (n + k,), generator=source).tolist()
            for n, k in zip(self.lengths, self.counts, strict=True)
        ]
        with ops.use_backend("reference"):
            runner = PagedRunner(self.model, count, MAX_TOKENS, BLOCK_TOKENS, self.page_type)
            past = [(row, tokens[row][:n], 0) for row, n in enumerate(self.lengths) if n]
            runner.step(past)
            before = runner.cache.arena.clone()
            spans = [(row, tokens[row][n:], n) for row, n in enumerate(self.lengths)]
            self.logits = torch.stack([logits[-1] for logits in runner.step(spans)])
        self.pages = runner.cache.arena
        arena = allocate_arena(before.numel(), self.device)
        arena.copy_(before)
        layouts = list(runner.cache.layouts.values())
        with ops.use_backend("triton"):
            self.cache = KVCache(arena, layouts, self.on_device.key_balance)
        self.store = DeviceRows(count + 3, layouts, [MAX_TOKENS] * len(layouts), self.device)
        self.rows = torch.randperm(count + 3, generator=source)[:count].tolist()
        for index, row in enumerate(self.rows):
            # A request of one token is a decode, whose token only its row has.
            self.store.last_token[row], self.store.length[row] = tokens[index][-1], self.lengths[index]
            for layout, table in zip(layouts, self.store.tables, strict=True):
                entries = torch.tensor(runner.tables[index][layout.group.name], dtype=torch.int32)
                table[row, : len(entries)] = entries.to(self.device)
        self.words = self._words([[-1] if n == 1 else t[-n:] for n, t in zip(self.counts, tokens, strict=True)])

    def _words(self, chunks: list[list[int]]) -> PromptWords:
        more_tokens, more_requests, more_logits = PADDING
        starts = np.cumsum([0, *self.counts])
        parts = [
            ([token for chunk in chunks for token in chunk], more_tokens, -2),
            ([n + k for n, chunk in zip(self.lengths, chunks, strict=True) for k in range(len(chunk))], more_tokens, 0),
            ([row for row, chunk in zip(self.rows, chunks, strict=True) for _ in chunk], more_tokens, 0),
            (list(starts), more_requests, int(starts[-1])),
            ([n + k for n, k in zip(self.lengths, self.counts, strict=True)], more_requests, 0),
            (self.rows, more_requests, 0),
            (self.counts, more_requests, 0),
            (list(starts[1:] - 1), more_logits, 0),
        ]
        tensors = [torch.tensor([*part, *[filling] * more], dtype=torch.int32) for part, more, filling in parts]
        return PromptWords(*(tensor.to(self.device) for tensor in tensors))

    def recording(self) -> Recording:
        decoder = self.on_device.part(TokenDecoder)
        assert decoder is not None
        return make_recording(decoder.step(self.cache))

    def step(self) -> LoweredPromptStep:
        recording = gather_early(self.recording())
        pages = {layout.group.name: layout.block_tokens for layout in self.store.layouts}
        given = (recording, self.words, self.store.as_step_rows(), pages)
        size = LoweredPromptStep(*given, None, self.half, card(self.device)).workspace_bytes
        memory = torch.full((size,), 0xFF, dtype=torch.uint8, device=self.device)  # NaN
        return LoweredPromptStep(*given, memory, self.half, card(self.device))


def make_world(
    make: Make, counts: list[int], device: torch.device, half: torch.dtype, page_type: torch.dtype | None = None,
    weight_type: TensorType | None = None,
) -> World:  # fmt: skip
    config = make(2 if make in DEEP else 1)
    on_device, exact = build(config, half), build(config, half)
    if device.type != "cpu":
        on_device.place(device)
    for node in on_device.modules():
        node.set_compute_type(half)
        node.prepare()

    def target(weight: Weight) -> TensorType | None:
        return weight_type if weight.rows == QUANTISED_ROWS else None

    prepare_weights(list(on_device.weights()), quantize=target, device=device, dtype=half)
    for weight, other in zip(on_device.weights(), exact.weights(), strict=True):
        if target(weight) is not None:
            dense = weight.packed[MATRIX].expanded(ProductWorkspace(device), torch.float32).cpu().clone()
            other.parts = Weight.from_tensor(dense).parts
    return World(exact, on_device, counts, device, half, page_type or half)


def check(world: World) -> None:
    step, store, count = world.step(), world.store, len(world.counts)
    untouched = store.words.clone()
    with ops.use_backend("triton"), torch.inference_mode():
        step.run()
    coarse = world.page_type is torch.int8
    tolerance = 4e-2 if coarse else 2e-2 if world.half is torch.bfloat16 else 5e-3
    assert error(step.logits[:count], world.logits) < tolerance
    lengths = [n + k for n, k in zip(world.lengths, world.counts, strict=True)]
    assert store.length[world.rows].tolist() == lengths
    store.length[world.rows] = torch.tensor(world.lengths, dtype=torch.int32, device=world.device)
    assert torch.equal(store.words, untouched), "more than the lengths of the step's rows was changed"
    if coarse:
        same = (world.cache.arena.cpu() == world.pages).float().mean()
        assert same > 0.8
        assert torch.equal(written(world.cache.arena), written(world.pages))
        return
    got, expected = world.cache.arena.cpu().view(world.page_type).float(), world.pages.view(world.page_type).float()
    assert torch.equal(got.isnan(), expected.isnan()), "other tokens were stored than the reference stores"
    assert error(got.nan_to_num(), expected.nan_to_num()) < tolerance


def written(arena: Tensor) -> Tensor:
    """Blocks of 16 bytes of which one is not as it was before anything was stored."""
    return (arena.cpu().view(-1, 16) != 0xFF).any(dim=1)


@pytest.mark.parametrize("make", [llama, qwen2, qwen3, gemma3, gpt2])
def test_a_step_equals_the_reference(make: Make, device: torch.device, half: torch.dtype) -> None:
    """Decodes beside chunks, one of them the beginning of a prompt."""
    check(make_world(make, [1, 13, 5, 1], device, half))


@pytest.mark.parametrize(("make", "page_type"), [(llama, torch.int8), (qwen3, torch.int8), (qwen3, torch.float32)])
def test_every_kind_of_pages(make: Make, page_type: torch.dtype, device: torch.device, half: torch.dtype) -> None:
    """Heads of 64 channels have a scale for each half, heads of 32 channels one for both."""
    check(make_world(make, [9, 1], device, half, page_type))


def test_quantised_weights(device: torch.device, half: torch.dtype) -> None:
    """They are expanded for the library."""
    world = make_world(gpt2, [6, 1], device, half, weight_type=TensorType.Q8_0)
    assert "expansion" in [launch.name for launch in world.step().launches]
    check(world)


@pytest.mark.parametrize("make", [llama, gemma3, gpt2])
def test_only_rows_with_logits_are_computed_to_the_end(make: Make, device: torch.device, half: torch.dtype) -> None:
    """The products after the last attention have as many rows as there are logits."""
    step = make_world(make, [11, 3], device, half).step()
    names = [launch.name for launch in step.launches]
    last = len(names) - 1 - names[::-1].index("attention")
    rows = [launch.arguments[0].shape[0] for launch in step.launches[last:] if launch.name == "library product"]
    assert rows == [2 + PADDING[2]] * 4 and names[last + 1 : last + 3] == ["gather", "gather"]


def test_the_residual_stream_stays_where_it_is(device: torch.device, half: torch.dtype) -> None:
    """Each norm adds a product to the same memory."""
    step = make_world(llama, [11, 3], device, half).step()
    norms = [launch.arguments for launch in step.launches if launch.name == "norm"]
    streams = {residual.data_ptr() for _, residual, *_ in norms[1:3]} | {given[5].data_ptr() for given in norms[1:3]}
    assert len(norms) == 5 and len(streams) == 1
