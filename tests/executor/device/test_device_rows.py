"""Rows in a device's memory: the same plans give them what the CPU's store has, and the same tokens."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from antiphon.engine.plan import RowSetup, StepPlan
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.device.batch import StepSize, pack, unpack
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.rows import RowStore
from antiphon.executor.step_batch import build_step
from antiphon.executor.upload import upload
from antiphon.ops import Batch, CacheGroup, CacheKind, CacheLayout

ROWS, VOCAB, BLOCK_TOKENS, MAX_TOKENS = 6, 50, 4, 40
COLUMNS = {"temperature": torch.float32, "top_p": torch.float32, "min_p": torch.float32, "seed": torch.int64,
           "output_index": torch.int64}  # fmt: skip
LAYOUTS = [CacheLayout(CacheGroup(name, CacheKind.FULL, 1, 1, 16), BLOCK_TOKENS) for name in ("a", "b")]


def stores() -> tuple[RowStore, DeviceRows]:
    lengths = [MAX_TOKENS] * len(LAYOUTS)
    return RowStore(ROWS, LAYOUTS, lengths), DeviceRows(ROWS, LAYOUTS, lengths, torch.device("cpu"))


def same(cpu: RowStore, device: DeviceRows) -> None:
    for name in ("last_token", "top_k", "cross_tokens", "adapter", *COLUMNS):
        column = device.column(name, COLUMNS.get(name, torch.int32))
        assert column.tolist() == getattr(cpu, name).tolist(), name
    for mine, theirs in zip(device.tables, cpu.tables, strict=True):
        assert mine.tolist() == theirs.tolist()


def new_request(source: random.Random, row: int) -> Request:
    params = SamplingParams(
        temperature=source.choice([0.0, 0.7, 1.2]), top_k=source.choice([0, 5]), top_p=source.choice([1.0, 0.8]),
        min_p=source.choice([0.0, 0.1]), seed=source.randrange(1 << 62),
    )  # fmt: skip
    request = Request(f"r{row}", "m", [source.randrange(VOCAB) for _ in range(source.randrange(2, 12))], params)
    request.row = row
    return request


def setup(source: random.Random, request: Request) -> RowSetup:
    blocks = -(-MAX_TOKENS // BLOCK_TOKENS)
    return RowSetup(request, [[source.randrange(1 << 20) for _ in range(blocks)] for _ in LAYOUTS])


def mixed_plan(source: random.Random, requests: list[Request]) -> StepPlan:
    """The first half decodes; the others compute their prompt from a random position on, some to its end."""
    plan = StepPlan("m", row_setups=[setup(source, request) for request in requests])
    half = len(requests) // 2
    for request in requests[:half]:
        request.num_computed_tokens = request.num_tokens - 1
        plan.add(request, 1, samples=True)
    plan.num_decodes = half
    for request in requests[half:]:
        request.num_computed_tokens = source.randrange(request.num_tokens)
        left = request.num_tokens - request.num_computed_tokens
        count = source.randrange(1, left + 1)
        plan.add(request, count, samples=count == left)
    return plan


def same_batch(got: Batch, expected: Batch) -> None:
    """The device's batch, which may have room for more: those tokens are stored nowhere, and no request has them."""
    tokens, requests = len(expected.positions), len(expected.query_start) - 1
    assert got.token_ids is not None and expected.token_ids is not None
    assert got.token_ids[:tokens].tolist() == expected.token_ids.tolist()
    assert got.positions[:tokens].tolist() == expected.positions.tolist()
    assert got.query_start.tolist() == expected.query_start.tolist() + [tokens] * (len(got.query_start) - requests - 1)
    assert got.logit_rows[: len(expected.logit_rows)].tolist() == expected.logit_rows.tolist()
    for name, theirs in expected.groups.items():
        mine = got.groups[name]
        assert mine.slot_mapping[:tokens].tolist() == theirs.slot_mapping.tolist()
        assert (mine.slot_mapping[tokens:] == -1).all()
        assert mine.seq_lens[:requests].tolist() == theirs.seq_lens.tolist()
        assert not mine.seq_lens[requests:].any()


@pytest.mark.parametrize("seed", range(4))
def test_a_device_has_the_batch_and_the_tokens_of_the_cpu(seed: int) -> None:
    source = random.Random(seed)
    cpu, device = stores()
    for _ in range(8):
        requests = [new_request(source, row) for row in source.sample(range(ROWS), source.randrange(1, ROWS + 1))]
        plan = mixed_plan(source, requests)
        cpu.apply(plan)
        device.apply(plan)
        same(cpu, device)
        expected = build_step(plan, cpu)
        packed = pack(plan, StepSize(64, 8, 8) if source.random() < 0.5 else None)
        entries = packed.entries
        assert (entries.sample_entries, entries.sample_rows) == (expected.sample_entries, expected.sample_rows)
        words = upload(packed.words, device.device)
        same_batch(unpack(words, packed.size, device, packed.num_decodes, packed.adapted), expected.batch)
        for entry, request in enumerate(requests):
            assert device.length[request.row] == plan.starts[entry] + plan.counts[entry]
        rows = np.array([request.row for request in requests], dtype=np.int64)
        logits = torch.randn(len(rows), VOCAB, generator=torch.Generator().manual_seed(seed))
        for logprobs in (False, True):
            first, found = cpu.draw(rows, logits.clone(), logprobs)
            second, also = device.draw(rows, logits.clone(), logprobs)
            assert first.tolist() == second.tolist()
            assert (found is None) == (also is None)
            assert found is None or also is None or torch.equal(found, also)
        same(cpu, device)


def test_an_uploaded_array_may_be_changed_at_once() -> None:
    array = np.arange(6, dtype=np.int32)
    tensor = upload(array, torch.device("cpu"))
    array[:] = 9
    assert tensor.tolist() == [0, 1, 2, 3, 4, 5] and tensor.dtype is torch.int32


def test_rows_that_a_step_left_are_set_when_their_requests_are_computed_next() -> None:
    source = random.Random(4)
    _, device = stores()
    requests = [new_request(source, row) for row in range(3)]
    device.apply(StepPlan("m", row_setups=[setup(source, request) for request in requests]))
    device.leave([0, 1, 2])
    for request in requests:
        request.tokens += [7, 8, 9]
        request.num_computed_tokens = request.num_tokens - 1
    other = new_request(source, 1)  # the second one's row has another request now
    plan = StepPlan("m", row_setups=[setup(source, other)])
    plan.add(requests[0], 1, samples=True)
    device.apply(plan)
    assert device.last_token.tolist()[:3] == [9, other.tokens[-1], requests[2].tokens[-4]]
    assert device.length.tolist()[:3] == [requests[0].num_computed_tokens, 0, 0]
    assert device.output_index.tolist()[:3] == [3, 0, 0]
    device.length[0] += 1  # by the step
    device.apply(StepPlan("m", requests=[requests[0], requests[2]]))
    assert device.length.tolist()[:3] == [requests[0].num_tokens, 0, requests[2].num_computed_tokens]
    assert device.output_index.tolist()[:3] == [3, 0, 3]
