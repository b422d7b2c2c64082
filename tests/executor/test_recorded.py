"""A recorded step gives the bits that the model's own forward gives, for every architecture and whatever the sizes."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from antiphon import ops
from antiphon.errors import UnrecordableError
from antiphon.executor.decoder.forward import Forward
from antiphon.executor.embedding import EmbeddingExecutor
from antiphon.executor.recorded import recordings
from antiphon.models.base.model import CausalLM, Model
from antiphon.ops import Batch, KVCache, native
from antiphon.ops.native.program import Program
from antiphon.ops.program import InputSpec, Recording, record
from antiphon.weights.types import TensorType
from models.test_bert import flatten, tiny_bert
from models.test_causal_lm import CONFIGS, VOCAB, gemma3, llama, pair, qwen3, random_tokens
from models.test_whisper import tiny_whisper
from support.kernels.paged import PagedRunner, Span, build_batch

pytestmark = pytest.mark.skipif(not native.available(), reason="programs need the native extension")

#: Steps of (request, tokens, start): prompts whole and in chunks, single tokens, other numbers of requests and blocks.
STEPS = [
    [(0, 9, 0)],
    [(0, 1, 9), (1, 17, 0)],
    [(2, 1, 0), (0, 1, 10), (1, 2, 17)],
    [(1, 1, 19), (2, 40, 1), (3, 3, 0)],
    [(3, 1, 3), (1, 1, 20), (2, 1, 41), (0, 1, 11)],
]


def recording(model: Model, name: str, cache: KVCache | None = None) -> Recording:
    """One of the functions that a model declares as recordable."""
    return recordings(model, cache or KVCache(ops.allocate_arena(0), []))[name]()


class Beside:
    """A model whose every forward also runs as a program over a cache of its own; both must agree in every bit."""

    def __init__(self, model: CausalLM, threads: int, **pages: Any) -> None:
        self.model = model
        self.eager, self.recorded = (PagedRunner(model, 4, 48, **pages) for _ in range(2))
        self.program = Program(recording(model, "forward", self.recorded.cache), threads)

    def step(self, spans: list[tuple[int, list[int], int]]) -> None:
        expected = torch.cat(self.eager.step(spans))
        full = [
            Span(
                tokens,
                start,
                self.recorded.tables[row],
                wants_all_logits=True,
                cross_tokens=self.recorded.cross_tokens,
            )
            for row, tokens, start in spans
        ]
        batch = build_batch(full, self.recorded.cache.layouts, self.recorded.cross_groups)
        assert torch.equal(self.run(batch), expected)
        assert torch.equal(self.eager.cache.arena, self.recorded.cache.arena)

    def run(self, batch: Batch) -> torch.Tensor:
        names = ("token_ids", "positions", "query_start", "logit_rows")
        return self.program.run({name: getattr(batch, name) for name in names}, batch.groups)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", CONFIGS, ids=lambda make: make.__name__)
def test_decoders(make: Callable[[], Any], threads: int) -> None:
    beside = Beside(pair(make)[1], threads)
    for number, step in enumerate(STEPS):
        beside.step([(row, random_tokens(count, number + row), start) for row, count, start in step])


@pytest.mark.parametrize("make", [qwen3, gemma3], ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "pages", [dict(dtype=torch.float16), dict(dtype=torch.int8), dict(dtype=torch.bfloat16, value_dtype=torch.int8)]
)
def test_page_types(make: Callable[[], Any], pages: dict[str, Any]) -> None:
    beside = Beside(pair(make)[1], 2, **pages)
    for number, step in enumerate(STEPS):
        beside.step([(row, random_tokens(count, number + row), start) for row, count, start in step])


@pytest.mark.parametrize("type_", [TensorType.Q8_0, TensorType.Q4_1])
def test_packed_weights(type_: TensorType) -> None:
    model = pair(llama)[1]
    native.prepare_weights(list(model.weights()), quantize=lambda weight: type_)
    beside = Beside(model, 2)
    assert any(instruction.is_int8 for instruction in beside.program.recording.instructions)
    for number, step in enumerate(STEPS):
        beside.step([(row, random_tokens(count, number + row), start) for row, count, start in step])


def test_logits_of_some_rows_only() -> None:
    model = pair(llama)[1]
    beside = Beside(model, 2)
    spans = [Span(random_tokens(9, 1), 0, beside.recorded.tables[0]), Span([5], 0, beside.recorded.tables[1])]
    batch = build_batch(spans, beside.recorded.cache.layouts)
    assert len(batch.logit_rows) == 2
    found = beside.run(batch)
    assert torch.equal(model.forward(batch, beside.recorded.cache), found)


@pytest.mark.parametrize("sentence", [{}, dict(pooling_mode_cls_token=True, normalize=False)])
def test_bert(sentence: dict[str, bool]) -> None:
    _, model = tiny_bert(**sentence)
    for threads in (1, 2):
        program = Program(recording(model, "embed"), threads)
        for lengths in ((5,), (3, 23, 1), (12, 4), (64,) * 9):
            ids, positions, starts = flatten([random_tokens(length, length) for length in lengths])
            found = program.run({"token_ids": ids, "positions": positions, "seq_start": starts})
            assert torch.equal(found, model.embed(ids, positions, starts))


def test_vectors_of_a_recorded_encoder_are_the_callers_own() -> None:
    _, model = tiny_bert()
    executor = EmbeddingExecutor(*model.parts())
    names = ("token_ids", "positions", "seq_start")
    first = executor.embed(dict(zip(names, flatten([[1, 2, 3], [4]]), strict=True)))
    kept = first.clone()
    executor.embed(dict(zip(names, flatten([[9, 8], [7, 6, 5]]), strict=True)))
    assert torch.equal(first, kept)


@pytest.mark.parametrize("threads", [1, 2])
def test_whisper(threads: int) -> None:
    _, model = tiny_whisper()
    encode = Program(recording(model, "encode"), threads)
    for windows, states in ((1, 20), (2, 20), (3, 11)):
        features = torch.randn(windows, 2 * states, 8)
        starts = torch.arange(windows + 1, dtype=torch.int32) * states
        found = encode.run({"features": features, "seq_start": starts})
        assert torch.equal(found, model.encode(features, starts))
    beside = Beside(model, threads, cross_tokens=20)
    runners = (beside.eager, beside.recorded)
    store = Program(recording(model, "store_encoded", beside.recorded.cache), threads)
    encoded = torch.randn(80, 48)
    beside.eager.store_encoded(encoded)
    spans = [Span([0] * 20, 0, table) for table in beside.recorded.tables]
    layouts = {name: layout for name, layout in beside.recorded.cache.layouts.items() if name == "cross"}
    store.run({"encoded": encoded}, build_batch(spans, layouts).groups)
    assert torch.equal(*(runner.cache.arena for runner in runners))
    beside.step([(0, [1, 2, 3], 0), (1, [4], 0)])
    beside.step([(1, [5, 6, 7], 1), (0, [8], 3), (3, [1], 0)])


def test_more_windows_than_positions_are_refused() -> None:
    _, model = tiny_whisper()
    program = Program(recording(model, "encode"))
    with pytest.raises(ValueError, match="21 rows are added to, and a constant has 20"):
        program.run({"features": torch.randn(1, 42, 8), "seq_start": torch.tensor([0, 21], dtype=torch.int32)})


# -- what a program checks, and keeps ---------------------------------------------------------------------------


def test_bad_input_is_refused_with_the_numbers() -> None:
    model = pair(llama)[1]
    beside = Beside(model, 2)
    span = Span([1, 2], 0, beside.recorded.tables[0], wants_all_logits=True)
    batch = build_batch([span], beside.recorded.cache.layouts)

    def run(**changed: torch.Tensor) -> None:
        names = ("token_ids", "positions", "query_start", "logit_rows")
        beside.program.run({name: getattr(batch, name) for name in names} | changed, batch.groups)

    with pytest.raises(ValueError, match=r"positions is \(3,\), not \(2,\)"):
        run(positions=torch.arange(3, dtype=torch.int32))
    with pytest.raises(ValueError, match=f"id 500 does not lie within the weight's {VOCAB} rows"):
        run(token_ids=torch.tensor([1, 500], dtype=torch.int32))
    with pytest.raises(IndexError, match="position 200 does not lie within the rotary table's 128 rows"):
        run(positions=torch.tensor([0, 200], dtype=torch.int32))
    with pytest.raises(IndexError, match="row 2 is not one of 2"):
        run(logit_rows=torch.tensor([2]))
    with pytest.raises(ValueError, match="1 tokens are stored to 2 slots"):
        run(token_ids=torch.tensor([1], dtype=torch.int32), positions=torch.tensor([0], dtype=torch.int32))
    run(token_ids=torch.tensor([1, 2]))  # other whole numbers are converted


def test_a_program_keeps_what_it_reads() -> None:
    _, model = tiny_bert()
    expected = model.embed(*flatten([[1, 2, 3]]))
    program = Program(recording(model, "embed"))
    del model
    gc.collect()
    garbage = [torch.full((4096,), torch.nan) for _ in range(200)]
    ids, positions, starts = flatten([[1, 2, 3]])
    assert torch.equal(program.run({"token_ids": ids, "positions": positions, "seq_start": starts}), expected)
    del garbage


def test_the_workspace_is_shared_by_values_that_do_not_live_together() -> None:
    beside = Beside(pair(llama)[1], 1)
    (tokens, rows) = beside.program.plan.areas
    assert tokens.symbols == ("T",) and rows.symbols == ("L",)
    assert tokens.bytes < tokens.unshared / 5
    assert beside.program.workspace_bytes({"T": 10, "R": 1, "L": 2}) == 10 * tokens.bytes + 2 * rows.bytes


# -- forwards that cannot be recorded ---------------------------------------------------------------------------

X = InputSpec("x", torch.float32, ("T", 8))


def layer(x: Any) -> Any:
    return ops.rms_norm(x, torch.ones(8), 1e-6)[0]


@pytest.mark.parametrize(
    ("forward", "cause"),
    [
        (lambda x: layer(x) * 2, "arithmetic"),
        (lambda x: layer(x).relu(), "relu"),
        (lambda x: x, "not the result of an operation"),
        (lambda x: layer(x)[:, :4], "a part of"),
        (lambda x: layer(x) if x.shape[0] == 1 else x, "compares"),
        (lambda x: [x := layer(x) for _ in range(x.shape[0])][-1], "other things for other numbers"),
        (lambda x: ops.linear(x, torch.ones(8, 8)), "has no attribute"),
        (lambda x: ops.add(x, torch.ones(8, dtype=torch.float64)), "not a float32"),
        (lambda x: ops.conv1d(x.unsqueeze(0), torch.ones(8, 8, 3), dilation=2), "dilation"),
        (lambda x: ops.lstm(x.unsqueeze(0), torch.tensor([3]), None), "lstm cannot be recorded"),
    ],
)
def test_unrecordable_forwards_say_why(forward: Callable[[Any], Any], cause: str) -> None:
    with pytest.raises((UnrecordableError, AttributeError), match=cause):
        Program(record(lambda inputs, _: forward(inputs["x"]), (X,)))


class Odd(CausalLM):
    """A model that does something of its own between two operations."""

    def __init__(self, model: CausalLM) -> None:
        self._model = model
        self.vocab_size, self.max_positions = model.vocab_size, model.max_positions

    @classmethod
    def from_checkpoint(cls, checkpoint: Any) -> Odd:
        raise NotImplementedError

    def forward(self, batch: Batch, cache: KVCache) -> torch.Tensor:
        return self._model.forward(batch, cache) * 2


def test_an_unrecordable_model_runs_operation_by_operation(caplog: pytest.LogCaptureFixture) -> None:
    model = pair(llama)[1]
    runner = PagedRunner(model, 1, 16)
    batch = build_batch([Span([1, 2, 3], 0, runner.tables[0], wants_all_logits=True)], runner.cache.layouts)
    expected = model.forward(batch, runner.cache) * 2
    forward = Forward(Odd(model).decoder(), runner.cache, wanted=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert torch.equal(forward(batch), expected)
    (line,) = [line for line in caplog.messages if "operation by operation" in line]
    assert line.startswith("Odd runs operation by operation: UnrecordableError: the forward calls arithmetic")
    assert forward.recorded.program() is None


def test_steps_share_one_buffer_of_logits() -> None:
    model = pair(llama)[1]
    runner = PagedRunner(model, 1, 16)
    forward = Forward(model.decoder(), runner.cache, wanted=True)
    batch = build_batch([Span([1, 2, 3], 0, runner.tables[0], wants_all_logits=True)], runner.cache.layouts)
    first, second = forward(batch), forward(batch)
    assert first.data_ptr() == second.data_ptr()
    assert forward.native_seconds > 0


def test_another_backend_is_not_recorded() -> None:
    model = pair(llama)[1]
    runner = PagedRunner(model, 1, 16)
    forward = Forward(model.decoder(), runner.cache, wanted=True)
    batch = build_batch([Span([1, 2, 3], 0, runner.tables[0], wants_all_logits=True)], runner.cache.layouts)
    with ops.use_backend("reference"):
        assert torch.equal(forward(batch), model.forward(batch, runner.cache))
        assert forward.recorded.program() is None
    assert forward.recorded.program() is not None


@pytest.mark.weights
@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b", "gemma-3-270m"])
def test_real_weights(name: str) -> None:
    from antiphon.runtime.loading.loading import load_model

    model = load_model(name).causal_lm()
    beside = Beside(model, 2, dtype=torch.float16, block_tokens=16)
    for step in STEPS[:3]:
        beside.step([(row, random_tokens(count, row), start) for row, count, start in step])
