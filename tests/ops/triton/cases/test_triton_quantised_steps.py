"""Decode steps of models whose weights are quantised, against the reference with the decoded weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from antiphon.executor.recorded import make_recording
from antiphon.models.base.model import CausalLM
from antiphon.models.registry import build_model
from antiphon.ops import KVCache, allocate_arena
from antiphon.ops.registry import use_backend
from antiphon.ops.triton import is_interpreted
from antiphon.ops.triton.embedding import embed
from antiphon.ops.triton.launch import card
from antiphon.ops.triton.product import linear
from antiphon.ops.triton.program.choice import Draw
from antiphon.ops.triton.program.rows import StepRows
from antiphon.ops.triton.program.step import LoweredDecodeStep, StepMemory, step_bytes
from antiphon.ops.triton.quantised import launches, matrix
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix
from antiphon.ops.triton.quantised.prepare import prepare_quantised
from antiphon.ops.triton.quantised.tiles import BlockRowTile, BlockVectorTile
from antiphon.ops.triton.quantised.workspace import ProductWorkspace
from antiphon.ops.triton.weights import MATRIX, prepare_weights
from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight
from support.kernels.paged import PagedRunner
from support.kernels.random_blocks import FACTORS, decoded, random_part
from support.kernels.triton_cases import error

#: Where a row of the step's store has what, in words.
OFFSETS = {
    "last_token": 0, "length": 1, "temperature": 2, "top_k": 3, "top_p": 4, "min_p": 5, "seed": 6, "output_index": 8,
    "cross_tokens": 10, "adapter": 11,
}  # fmt: skip
VOCAB, HIDDEN, INNER, HEADS, KV_HEADS, CHANNELS = 72, 256, 256, 4, 1, 64
BLOCK_TOKENS = 16
#: Errors of the logits that rounding of activations explains. Random blocks are not centred, which makes it worse: the
#: same weights as dense fp16 have an error of 1.5e-3 in the step of one row.
ROUNDING = {torch.float16: 4e-3, torch.bfloat16: 5e-2}
#: Types of the weights of a model, by the end of their names; "" is for the others.
Q8_0 = {"": TensorType.Q8_0}
#: As llama.cpp mixes them: values and the last products in a larger type.
MIXED = {"": TensorType.Q4_K, "v_proj": TensorType.Q6_K, "down_proj": TensorType.Q6_K, "embed_tokens": TensorType.Q5_K}
#: The rows of the gate and those of its values are quantised differently.
GATES = {"": TensorType.Q5_1, "up_proj": TensorType.Q8_0, "v_proj": TensorType.Q4_0, "k_proj": TensorType.Q4_1}
FLOATS = {"": TensorType.F32}
TYPES = {"q8_0": Q8_0, "mixed": MIXED, "gates": GATES}
#: Steps that the interpreter is quick enough for; it takes long for those of many rows.
QUICK = {("mixed", 1), ("mixed", 3)}
STEPS = [
    pytest.param(
        types,
        rows,
        id=f"{name}-{rows}",
        marks=() if (name, rows) in QUICK else pytest.mark.soak,
    )
    for name, types in TYPES.items()
    for rows in (1, 3, 20, 70)
]


class RandomCheckpoint(Checkpoint):
    """A decoder of one layer with random weights of given types."""

    format = "hf"
    architecture = "llama"

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        super().__init__()
        self.metadata: dict[str, Any] = {
            "model_type": "llama", "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": INNER,
            "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
            "head_dim": CHANNELS, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
            "hidden_act": "silu", "tie_word_embeddings": False,
        }  # fmt: skip
        self._generator, self._types = torch.Generator().manual_seed(7), types
        self._tensors: dict[str, StoredTensor] = {}
        layer, heads, groups = "model.layers.0.", HEADS * CHANNELS, KV_HEADS * CHANNELS
        for name in ("model.norm", layer + "input_layernorm", layer + "post_attention_layernorm"):
            self._add(name, TensorType.F32, (HIDDEN,), 1 + 0.2 * torch.randn(HIDDEN, generator=self._generator))
        for name, rows, columns in (
            ("model.embed_tokens", VOCAB, HIDDEN), ("lm_head", VOCAB, HIDDEN),
            (layer + "self_attn.q_proj", heads, HIDDEN), (layer + "self_attn.k_proj", groups, HIDDEN),
            (layer + "self_attn.v_proj", groups, HIDDEN), (layer + "self_attn.o_proj", HIDDEN, heads),
            (layer + "mlp.gate_proj", INNER, HIDDEN), (layer + "mlp.up_proj", INNER, HIDDEN),
            (layer + "mlp.down_proj", HIDDEN, INNER),
        ):  # fmt: skip
            self._add_matrix(name, rows, columns)

    def _add_matrix(self, name: str, rows: int, columns: int) -> None:
        type = next((type for end, type in self._types.items() if end and name.endswith(end)), self._types[""])
        if columns % type.block.elements:
            type = TensorType.Q8_0
        if type is TensorType.F32:
            values = torch.randn(rows, columns, generator=self._generator) * columns**-0.5
            self._add(name, type, (rows, columns), values)
        else:
            data = random_part(type, rows, columns, self._generator).data
            size = float(dequantize(data, type).square().mean().sqrt()) * columns**0.5
            first, count = FACTORS[type]
            factors = data.view(rows, -1, type.block.size)[:, :, first : first + 2 * count]
            factors.copy_((factors.contiguous().view(torch.float16) / size).view(torch.uint8))
            self._add(name, type, (rows, columns), data)

    def _add(self, name: str, type: TensorType, shape: tuple[int, ...], values: Tensor) -> None:
        data = values.contiguous().view(-1).view(torch.uint8)
        self._tensors[name + ".weight"] = StoredTensor(name + ".weight", type, shape, data)

    def tensors(self) -> Mapping[str, StoredTensor]:
        return self._tensors


def place(model: CausalLM, device: torch.device) -> None:
    if device.type != "cpu":
        model.place(device)


@pytest.fixture
def wide_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few programs, which the interpreter runs one after the other."""
    if is_interpreted():
        monkeypatch.setattr(launches, "vector_tile", lambda *_: BlockVectorTile(128, 8, 4))
        for module in (launches, matrix):
            monkeypatch.setattr(module, "row_tile", lambda *_: BlockRowTile(128, 4, 2, 4))


def step_error(model: CausalLM, exact: CausalLM, rows: int, device: torch.device, half: torch.dtype) -> float:
    """Of the logits of one step of `rows` requests, with `model` by its kernels and `exact` by the reference."""
    generator = torch.Generator().manual_seed(rows)
    lengths = torch.randint(1, 20, (rows,), generator=generator).tolist()
    tokens = torch.randint(0, VOCAB, (rows, 21), generator=generator).tolist()
    with use_backend("reference"):
        runner = PagedRunner(exact, rows, 32, block_tokens=BLOCK_TOKENS, dtype=half)
        for row in range(rows):
            runner.step([(row, tokens[row][: lengths[row]], 0)])
        arena = allocate_arena(runner.cache.arena.numel(), device)
        arena.copy_(runner.cache.arena)
        expected = torch.cat(runner.step([(row, [tokens[row][20]], lengths[row]) for row in range(rows)]))
    cache = KVCache(arena, list(runner.cache.layouts.values()))
    recording = make_recording(model.parts()[0].step(cache))  # type: ignore[attr-defined]
    words = torch.zeros(rows + 1, 16, dtype=torch.int32)
    for row in range(rows):
        words[row, :2] = torch.tensor([tokens[row][20], lengths[row]])
        table = runner.tables[row]["self"]
        words[row, 12 : 12 + len(table)] = torch.tensor(table)
    store = StepRows(words.to(device), OFFSETS, {"self": 12})
    size = step_bytes(recording, rows, 1, store, half, VOCAB, card(device))
    memory = StepMemory.allocate(rows, size, 4096, device)
    assert memory.workspace is not None
    memory.workspace.fill_(0xFF)
    memory.rows.copy_(torch.arange(rows, dtype=torch.int32))
    step = LoweredDecodeStep(recording, rows, 1, store, memory, half, VOCAB, card(device), Draw.NOTHING)
    step.run()
    assert not memory.counters.any()
    if rows == 1 and all(isinstance(weight.packed[MATRIX], QuantisedMatrix) for weight in model.weights()):
        names = [launch.name for launch in step.launches]
        # Attention leaves its result packed; the other three products of a layer and the head have theirs packed
        assert names.count("pack") == 3 * names.count("attention") + 1
    return error(step.logits[:rows].cpu(), expected.double())


@pytest.mark.usefixtures("wide_tiles")
@pytest.mark.parametrize(("types", "rows"), STEPS)
def test_decode_steps(types: Mapping[str, TensorType], rows: int, device: torch.device, half: torch.dtype) -> None:
    model, exact = build_model(RandomCheckpoint(types)), build_model(RandomCheckpoint(types))
    place(model, device)
    stored = sum(weight.nbytes for weight in model.weights())
    forms = prepare_weights(list(model.weights()), device=device, dtype=half)
    assert all(form.packed and form.quantized is None for form in forms)
    assert sum(form.resident_bytes for form in forms) == sum(weight.resident_bytes for weight in model.weights())
    assert sum(form.resident_bytes for form in forms) < 1.3 * stored
    assert step_error(model, exact, rows, device, half) < ROUNDING[half]


@pytest.mark.usefixtures("wide_tiles")
@pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_decode_steps_of_quantised_floats(rows: int, device: torch.device, half: torch.dtype) -> None:
    """Matrices in fp8, the embedding and the head in blocks of int8."""
    model, exact = build_model(RandomCheckpoint(FLOATS)), build_model(RandomCheckpoint(FLOATS))
    looked_up = {id(weight) for weight in (*model.weight_rules().embeddings, *model.weight_rules().heads)}

    def target(weight: Weight) -> TensorType:
        return TensorType.Q8_0 if id(weight) in looked_up else TensorType.F8_E4M3

    place(model, device)
    forms = prepare_weights(list(model.weights()), quantize=target, device=device, dtype=half)
    assert {form.quantized for form in forms} == {TensorType.Q8_0, TensorType.F8_E4M3}
    workspace = ProductWorkspace(device)
    for weight, other in zip(model.weights(), exact.weights(), strict=True):
        dense = weight.packed[MATRIX].expanded(workspace, torch.float32).cpu().clone()
        other.parts = Weight.from_tensor(dense).parts
    # Activations are rounded to e4m3 on a card that multiplies it.
    allowed = 0.1 if rows > 1 and card(device).converts_fp8 else ROUNDING[half]
    assert step_error(model, exact, rows, device, half) < allowed


@pytest.mark.parametrize("rows", [1, 66])
def test_operations(rows: int, device: torch.device, half: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight = Weight((random_part(TensorType.Q6_K, 24, 256, generator),), 256)
    exact, ids = decoded(weight), torch.randint(-1, 24, (rows,), generator=generator, dtype=torch.int32)
    prepare_weights([weight], device=device, dtype=half)
    x = torch.randn(rows, 256, generator=generator).to(half)
    residual, bias = torch.randn(rows, 24, generator=generator), torch.randn(24, generator=generator)
    y = linear(x.to(device), weight, bias.to(device), residual=residual.to(device))
    assert y.dtype is torch.float32
    assert error(y.cpu(), x.double() @ exact.T + bias + residual) < 5e-3
    ids = ids[:9]
    taken = embed(ids.to(device), weight, 2.0).cpu()
    assert error(taken, exact[ids.clamp(min=0).long()] * 2 * (ids >= 0)[:, None]) < 1e-6


def test_parts_of_floats_and_blocks_become_floats(device: torch.device, half: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    blocks = random_part(TensorType.Q8_0, 3, 64, generator)
    weight = Weight.concatenate([Weight((blocks,), 64), Weight.from_tensor(torch.randn(2, 64, generator=generator))])
    assert prepare_quantised(weight, device, TensorType.Q8_0) is None
    prepare_weights([weight], quantize=lambda weight: TensorType.I8, device=device, dtype=half)
    assert weight.packed[MATRIX].dtype is half
