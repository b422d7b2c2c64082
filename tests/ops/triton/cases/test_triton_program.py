"""A decode step lowered to kernels: the reference's logits and pages, for every way of multiplying and padded rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
import torch
import transformers
from torch import Tensor

from antiphon import ops
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.recorded import make_recording
from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import KVCache, SamplingRows, allocate_arena
from antiphon.ops.reference import sampling as reference
from antiphon.ops.triton.kernel_launch import Launch
from antiphon.ops.triton.launch import Card, card
from antiphon.ops.triton.program.choice import Draw
from antiphon.ops.triton.program.rows import StepRows
from antiphon.ops.triton.program.step import LoweredDecodeStep, StepMemory, step_bytes
from antiphon.ops.triton.weights import prepare_weights
from antiphon.weights.formats.memory import StateDictCheckpoint
from models.test_causal_lm import randomize
from support.kernels.paged import PagedRunner
from support.kernels.triton_cases import error

VOCAB, MAX_TOKENS, BLOCK_TOKENS = 112, 48, 16
pytestmark = pytest.mark.usefixtures("few_programs")

#: Ids of the head beyond the vocabulary, which are never drawn.
UNUSED = 5
COMMON = dict(
    vocab_size=VOCAB, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
)  # fmt: skip


def qwen3(layers: int) -> transformers.PretrainedConfig:
    """Norms of heads. One layer alone is deep enough that the programs of a product share the depth."""
    inner = 1024 if layers == 1 else 96
    return transformers.Qwen3Config(**COMMON, num_hidden_layers=layers, intermediate_size=inner, head_dim=32)


def qwen2(layers: int) -> transformers.PretrainedConfig:
    """With biases, a head that shares the embedding, and columns that no tile divides."""
    changed = COMMON | {"vocab_size": VOCAB - 7}
    return transformers.Qwen2Config(**changed, num_hidden_layers=layers, intermediate_size=96, tie_word_embeddings=True)


def gpt2(layers: int) -> transformers.PretrainedConfig:
    """Layer norms, positions that are added, no rotation."""
    return transformers.GPT2Config(vocab_size=VOCAB, n_embd=64, n_layer=layers, n_head=2, n_positions=128)


def build(config: transformers.PretrainedConfig, half: torch.dtype) -> CausalLM:
    theirs = randomize(transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
    state = {
        name: tensor.to(half) if tensor.dim() > 1 else tensor
        for name, tensor in theirs.state_dict().items()
        if not name.endswith("inv_freq") and not (config.tie_word_embeddings and name == "lm_head.weight")
    }
    model = build_model(StateDictCheckpoint(state, config.model_type, config.to_dict()))
    assert isinstance(model, CausalLM)
    return model


@dataclass
class World:
    """Requests in the middle of their answers: what the reference makes of their next step, and a step that does."""

    model: CausalLM
    on_device: CausalLM
    num_requests: int
    padding: int
    device: torch.device
    half: torch.dtype
    lengths: list[int] = field(default_factory=list)
    #: Tokens that each request computes behind the first, in a chained step.
    drafted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        source = torch.Generator().manual_seed(self.num_requests)
        count, vocab = self.num_requests, self.model.vocab_size
        longest = MAX_TOKENS - 1 - max(self.drafted, default=0)
        self.lengths = torch.randint(1, longest, (count,), generator=source).tolist()
        prompts = [torch.randint(0, vocab, (length,), generator=source).tolist() for length in self.lengths]
        self.tokens = torch.randint(0, vocab, (count,), generator=source).tolist()
        with ops.use_backend("reference"):
            runner = PagedRunner(self.model, count, MAX_TOKENS, BLOCK_TOKENS, self.half)
            runner.step([(row, prompt, 0) for row, prompt in enumerate(prompts)])
            before = runner.cache.arena.clone()
            more = [torch.randint(0, vocab, (length,), generator=source).tolist() for length in self.drafted]
            self.chain = [[token, *drafts] for token, drafts in zip(self.tokens, more or [[]] * count, strict=True)]
            spans = [(row, self.chain[row], self.lengths[row]) for row in range(count)]
            self.logits = torch.cat(runner.step(spans))
        self.pages = runner.cache.arena
        arena = allocate_arena(before.numel(), self.device)
        arena.copy_(before)
        layouts = list(runner.cache.layouts.values())
        self.cache = KVCache(arena, layouts, self.on_device.key_balance)
        self.store = DeviceRows(count + 3, layouts, [MAX_TOKENS] * len(layouts), self.device)
        self.rows = torch.randperm(count + 3, generator=source)[:count]
        for index, row in enumerate(self.rows.tolist()):
            self.store.last_token[row], self.store.length[row] = self.tokens[index], self.lengths[index]
            for layout, table in zip(layouts, self.store.tables, strict=True):
                entries = torch.tensor(runner.tables[index][layout.group.name], dtype=torch.int32)
                table[row, : len(entries)] = entries.to(self.device)

    def step(
        self, splits: int, draw: Draw = Draw.PLAIN, on: Card | None = None
    ) -> tuple[LoweredDecodeStep, StepMemory]:
        decoder = self.on_device.part(TokenDecoder)
        assert decoder is not None
        recording = make_recording(decoder.step(self.cache))
        groups, layout = [layout.group.name for layout in self.store.layouts], self.store.layout
        rows = StepRows(
            self.store.words,
            {name: column.offset for name, column in layout.columns.items()},
            {name: table.offset for name, table in zip(groups, layout.tables, strict=True)},
        )
        on = on or card(self.device)
        tokens = [token for chain in self.chain for token in chain]
        count, vocab = len(tokens) + self.padding, self.model.vocab_size - UNUSED
        size = step_bytes(recording, count, splits, rows, self.half, vocab, on) + len(groups) * 8 * count + 256
        memory = StepMemory.allocate(count, size, 4096, self.device)
        assert memory.workspace is not None
        memory.workspace.fill_(0xFF)  # NaN
        lengths = torch.tensor([len(chain) for chain in self.chain])
        memory.rows[: len(tokens)] = self.rows.to(torch.int32).repeat_interleave(lengths).to(self.device)
        pages = None
        if self.drafted:
            pages = {layout.group.name: layout.block_tokens for layout in self.store.layouts}
            offsets = [at for chain in self.chain for at in range(len(chain))]
            memory.given[: len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
            memory.offsets[: len(tokens)] = torch.tensor(offsets, dtype=torch.int32)
        return LoweredDecodeStep(recording, count, splits, rows, memory, self.half, vocab, on, draw, pages), memory


def make_world(
    make: Callable[[int], transformers.PretrainedConfig], num_requests: int, device: torch.device, half: torch.dtype,
    drafted: Sequence[int] = (),
) -> World:  # fmt: skip
    config = make(2 if num_requests <= 7 else 1)
    on_device = build(config, half)
    if device.type != "cpu":
        on_device.place(device)
    for node in on_device.modules():
        node.set_compute_type(half)
        node.prepare()
    prepare_weights(list(on_device.weights()), device=device, dtype=half)
    padding = 2 if num_requests > 3 else 0
    return World(build(config, half), on_device, num_requests, padding, device, half, drafted=list(drafted))


def check(world: World, splits: int) -> None:
    untouched = world.store.words.clone()
    step, memory = world.step(splits)
    with ops.use_backend("triton"), torch.inference_mode():
        step.run()
    count, rows, store = world.num_requests, world.rows.to(world.device), world.store
    tolerance = 2e-2 if world.half is torch.bfloat16 else 5e-3
    assert error(step.logits[:count], world.logits) < tolerance
    drawn = step.logits[:count, : world.model.vocab_size - UNUSED].argmax(-1)
    assert memory.drawn[:count].tolist() == drawn.tolist()
    assert store.last_token[rows].tolist() == drawn.tolist()
    assert store.length[rows].tolist() == [length + 1 for length in world.lengths]
    assert store.output_index[rows].tolist() == [1] * count
    assert not memory.counters.any()
    others = [row for row in range(count + 3) if row not in world.rows]
    assert torch.equal(store.words[others], untouched[others]), "a row without a request was changed"
    check_pages(world.cache.arena, world, tolerance)


def check_pages(arena: Tensor, world: World, tolerance: float) -> None:
    """The new tokens' keys and values are where the reference puts them, and nothing else was written."""
    got, expected = arena.cpu().view(world.half).float(), world.pages.view(world.half).float()
    assert torch.equal(got.isnan(), expected.isnan())
    assert error(got.nan_to_num(), expected.nan_to_num()) < tolerance


#: Requests and parts of the context: by the kernel for one row, by tensor cores, and by the library.
SIZES = [(count, splits) for count in (1, 3, 7, 20, 70) for splits in (1, 2)]
QUICK = {qwen3: [(1, 2), (3, 1), (20, 1)], qwen2: [(7, 2)], gpt2: [(1, 2)]}
CASES = [
    pytest.param(make, *size, marks=() if size in quick else pytest.mark.soak)
    for make, quick in QUICK.items()
    for size in SIZES
]


@pytest.mark.parametrize(("make", "num_requests", "splits"), CASES)
def test_a_step_equals_the_reference(
    make: Callable[[int], transformers.PretrainedConfig],
    num_requests: int,
    splits: int,
    device: torch.device,
    half: torch.dtype,
) -> None:
    check(make_world(make, num_requests, device, half), splits)


@pytest.mark.parametrize(
    ("make", "drafted", "splits"),
    [
        (qwen3, [4], 1), (qwen3, [4], 2), (qwen2, [0, 5, 2], 1), (gpt2, [1, 3], 2),
        pytest.param(qwen3, [7, 0, 3, 1, 2], 2, marks=pytest.mark.soak),
        pytest.param(qwen2, [15], 2, marks=pytest.mark.soak),
    ],
)  # fmt: skip
def test_a_chained_step_equals_the_reference(
    make: Callable[[int], transformers.PretrainedConfig], drafted: list[int], splits: int, device: torch.device,
    half: torch.dtype,
) -> None:  # fmt: skip
    """Several tokens of each request: every one sees those before it, and the rows are left as they are."""
    world = make_world(make, len(drafted), device, half, drafted)
    untouched = world.store.words.clone()
    step, memory = world.step(splits)
    with ops.use_backend("triton"), torch.inference_mode():
        step.run()
    count, tolerance = len(world.logits), 2e-2 if half is torch.bfloat16 else 5e-3
    assert count == len(drafted) + sum(drafted)
    assert error(step.logits[:count], world.logits) < tolerance
    drawn = step.logits[:count, : world.model.vocab_size - UNUSED].argmax(-1)
    assert memory.drawn[:count].tolist() == drawn.tolist()
    assert torch.equal(world.store.words, untouched)
    assert not memory.counters.any()
    check_pages(world.cache.arena, world, tolerance)


def test_a_step_that_leaves_the_draw_to_the_caller_grows_its_rows(device: torch.device, half: torch.dtype) -> None:
    world = make_world(qwen2, 3, device, half)
    step, _ = world.step(1, Draw.NOTHING)
    with ops.use_backend("triton"), torch.inference_mode():
        step.run()
    assert error(step.logits[:3], world.logits) < 2e-2
    rows = world.rows.to(device)
    assert world.store.last_token[rows].tolist() == world.tokens
    assert world.store.length[rows].tolist() == [length + 1 for length in world.lengths]
    assert world.store.output_index[rows].tolist() == [0, 0, 0]


def test_a_step_draws_from_a_part_of_the_vocabulary(device: torch.device, half: torch.dtype) -> None:
    """Every row with its own parameters, beside a greedy one and padding: the reference's tokens for the logits."""
    world = make_world(qwen2, 7, device, half)
    store, rows, count = world.store, world.rows.to(device), world.num_requests
    parameters = {
        "temperature": torch.tensor([0.0, 1.5, 1.5, 1.5, 1.5, 1.5, 0.9]),
        "top_k": torch.tensor([5, 0, 1, 4, 0, 0, 9], dtype=torch.int32),
        "top_p": torch.tensor([0.5, 1.0, 1.0, 1.0, 0.3, 1.0, 0.8]),
        "min_p": torch.tensor([0.5, 0.0, 0.0, 0.0, 0.0, 0.6, 0.01]),
        "seed": torch.arange(count) - 3,
    }
    for name, values in parameters.items():
        store.column(name, values.dtype)[rows] = values.to(device)
    store.output_index[rows] = torch.arange(count, device=device)
    step, memory = world.step(1, Draw.FILTERED)
    with ops.use_backend("triton"), torch.inference_mode():
        step.run()
    logits = step.logits[:count, : world.model.vocab_size - UNUSED].cpu()
    expected, _ = reference.sample(logits, SamplingRows(**parameters, index=torch.arange(count)), logprobs=False)
    plain, _ = reference.sample(
        logits, SamplingRows(parameters["temperature"], torch.zeros(count).int(), torch.ones(count), torch.zeros(count),
                             parameters["seed"], torch.arange(count)), logprobs=False,
    )  # fmt: skip
    assert expected.tolist() != plain.tolist()  # the filters matter
    assert memory.drawn[:count].tolist() == store.last_token[rows].tolist() == expected.tolist()
    assert store.length[rows].tolist() == [length + 1 for length in world.lengths]
    assert store.output_index[rows].tolist() == [index + 1 for index in range(count)]


@pytest.mark.parametrize("make", [qwen3, gpt2])
@pytest.mark.parametrize("num_requests", [1, 20, 70])
def test_only_kernels_that_wait_start_early(
    make: Callable[[int], transformers.PretrainedConfig], num_requests: int, device: torch.device, half: torch.dtype
) -> None:
    """And neither the kernel that reads the rows nor the one after it, so that all others may read what it wrote."""
    step, _ = make_world(make, num_requests, device, half).step(1, on=Card(90, 132))
    early = [launch for launch in step.launches if isinstance(launch, Launch) and launch.dependent]
    assert early and all(launch.constants["PDL"] for launch in early)
    assert [getattr(launch, "dependent", False) for launch in step.launches[:2]] == [False, False]
