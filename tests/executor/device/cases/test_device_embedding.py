"""Texts and pairs of texts on a card: the vectors and scores are those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from antiphon import ops
from antiphon.bench.random_models.random_model import NumberTokenizer
from antiphon.engine.core import EngineCore
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.device.embedding import DeviceEmbeddingExecutor, PassSize, room_for
from antiphon.models.registry import build_model
from antiphon.ops import Device
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.slots.resident import make_slots
from antiphon.weights.formats.memory import StateDictCheckpoint
from support.engine.running import run
from support.kernels.cards import a_card, loaded_on

NAME, VOCABULARY, WIDTH, INNER = "encoder", 40, 32, 48
CONFIG = dict(
    model_type="bert", vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=1,
    num_attention_heads=2, max_position_embeddings=48, type_vocab_size=2,
)  # fmt: skip
LENGTHS = (3, 1, 9)


@pytest.fixture(autouse=True)
def on_card() -> Iterator[None]:
    with ops.use_backend("triton"):
        yield


def state_dict(is_pair: bool) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    layer, embeddings = "encoder.layer.0", "embeddings"
    shapes: dict[str, tuple[int, ...]] = {
        f"{embeddings}.word_embeddings.weight": (VOCABULARY, WIDTH),
        f"{embeddings}.position_embeddings.weight": (48, WIDTH),
        f"{embeddings}.token_type_embeddings.weight": (2, WIDTH),
    }
    squares = [f"{layer}.attention.{name}" for name in ("self.query", "self.key", "self.value", "output.dense")]
    linears = [(name, WIDTH, WIDTH) for name in (*squares, *(["pooler.dense"] if is_pair else []))]
    linears += [(f"{layer}.intermediate.dense", INNER, WIDTH), (f"{layer}.output.dense", WIDTH, INNER)]
    linears += [("classifier", 1, WIDTH)] if is_pair else []
    for name, rows, columns in linears:
        shapes |= {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
    state = {name: torch.randn(shape, generator=generator) * 0.3 for name, shape in shapes.items()}
    for name in (f"{embeddings}.LayerNorm", f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"):
        state |= {f"{name}.weight": torch.ones(WIDTH), f"{name}.bias": torch.zeros(WIDTH)}
    return state


def core_on(device: Device, is_pair: bool = False, pooling: str = "mean") -> EngineCore:
    metadata = CONFIG | {"sentence": {"pooling_mode_cls_token": pooling == "cls"}}
    model = build_model(StateDictCheckpoint(state_dict(is_pair), "bert", metadata))
    config, core = EngineConfig(kv_bytes=1 << 20), EngineCore()
    loaded = loaded_on(device, model, NumberTokenizer(VOCABULARY), NAME)
    for slot in make_slots(loaded, Arena.allocate(config, device), config):
        core.add_model(slot)
    return core


def results(core: EngineCore, is_pair: bool = False) -> Tensor:
    """Of texts of several lengths in one pass; on the host."""
    generator = torch.Generator().manual_seed(1)
    made = [
        Request(
            str(number), NAME, torch.randint(VOCABULARY, (length,), generator=generator).tolist(), SamplingParams(),
            task="embed", inputs=length // 2 if is_pair else None,
        )
        for number, length in enumerate(LENGTHS)
    ]  # fmt: skip
    run(core, made)
    assert all(own.finish_reason is FinishReason.STOP and own.result.device.type == "cpu" for own in made)
    return torch.stack([own.result for own in made])


@pytest.mark.parametrize(
    ("kind", "compute_type"), [("mean", torch.float32), ("cls", torch.float16), ("pair", torch.float16)]
)
def test_vectors_are_those_of_the_cpu(kind: str, compute_type: torch.dtype) -> None:
    is_pair = kind == "pair"
    with ops.use_backend(ops.available_backends()[0]):
        expected = results(core_on(Device.parse("cpu"), is_pair, kind), is_pair)
    core = core_on(a_card(compute_type), is_pair, kind)
    passes = 3 if torch.cuda.is_available() else 1  # the second is captured, the third is a graph
    for _ in range(passes):
        got = results(core, is_pair)
        assert got.dtype is torch.float32 and got.shape == expected.shape
        assert (got - expected).abs().max() < (2e-3 if compute_type is torch.float16 else 2e-4)
    executor = core.slots[NAME].executor
    assert isinstance(executor, DeviceEmbeddingExecutor)
    assert executor.num_graphs == (1 if torch.cuda.is_available() else 0)
    executor.close()


def test_rooms_of_passes() -> None:
    """There is a token of padding where there is a text of padding."""
    assert room_for(12, 3) == (64, 4) and room_for(63, 1) == (64, 1) and room_for(64, 5) == (128, 16)
    assert room_for(9000, 1) is room_for(9, 999) is None


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_padding_changes_nothing(pooling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core, room = core_on(a_card(), pooling=pooling), PassSize(sum(LENGTHS) + 1, len(LENGTHS) + 2)
    executor = core.slots[NAME].executor
    assert isinstance(executor, DeviceEmbeddingExecutor)
    expected = results(core)
    pack, embed = executor._pack, executor._embed
    monkeypatch.setattr(executor, "_pack", lambda plan, _: pack(plan, room))
    monkeypatch.setattr(executor, "_embed", lambda _, words: embed(room, words))
    monkeypatch.setattr(executor, "_graphs", None)
    assert (results(core) - expected).abs().max() < 1e-5
