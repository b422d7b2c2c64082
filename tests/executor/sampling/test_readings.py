"""What a step reads of its logits, for all requests together, against each one's own log-probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from antiphon.engine.beam import BeamGroup
from antiphon.engine.plan import RowSetup, StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.rows import RowStore
from antiphon.executor.sampling.sampler import Sampler
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.step_batch import StepBatch, build_step
from antiphon.ops import CacheGroup, CacheKind, CacheLayout

VOCAB = 50


def request(row: int, prompt: list[int], **params: Any) -> Request:
    made = Request(f"r{row}", "m", prompt, SamplingParams(**params))
    made.row = row
    return made


def step_of(requests: list[Request], counts: list[int], samples: list[bool]) -> tuple[StepPlan, StepBatch, Sampler]:
    store = RowStore(8, [CacheLayout(CacheGroup("self", CacheKind.FULL, 1, 1, 16))], [256])
    sampler = Sampler(store, VOCAB)
    plan = StepPlan("m", row_setups=[RowSetup(request, [[0] * 16]) for request in requests])
    for made, count, draws in zip(requests, counts, samples, strict=True):
        plan.add(made, count, draws)
    store.apply(plan)
    sampler.set_up(plan)
    return plan, build_step(plan, store), sampler


def likeliest(logprobs: torch.Tensor, count: int) -> list[tuple[int, float]]:
    top = logprobs.topk(count)
    values = [pytest.approx(value, abs=1e-5) for value in top.values.tolist()]
    return list(zip(top.indices.tolist(), values, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_prompts_probes_and_drawn_tokens_in_one_step(seed: int) -> None:
    plain = request(0, [5])
    prompt = request(1, [3, 7, 9, 11, 2], prompt_logprobs=True, prompt_top_logprobs=3, logprobs=2)
    chunk = request(2, [4, 8, 15, 16, 23, 42], prompt_logprobs=True, logprobs=4)
    probing = request(3, [1, 2, 3])
    probing.probe = (1, 30)
    edited = request(4, [6], logprobs=0, banned_tokens=frozenset(range(25)))
    requests = [plain, prompt, chunk, probing, edited]
    counts = [1, 5, 4, 3, 1]
    plan, step, sampler = step_of(requests, counts, [True, True, False, True, True])
    logits = torch.randn(len(step.batch.logit_rows), VOCAB + 3, generator=torch.Generator().manual_seed(seed)) * 2
    logprobs = logits[:, :VOCAB].double().log_softmax(-1)
    result = sampler.sample(plan, step, logits.clone())
    tokens = dict(zip(step.sample_entries, result.tokens, strict=True))
    # The rows of the logits: plain 0, prompt 1 to 5, chunk 6 to 9, probing 10 and its probe 11, edited 12.
    assert tokens[0] == logprobs[0].argmax() and tokens[4] == 25 + logprobs[12, 25:].argmax()
    expected = [float(logprobs[1 + i, prompt.prompt[i + 1]]) for i in range(4)]
    assert result.prompt_logprobs[1] == pytest.approx(expected, abs=1e-5)
    expected = [float(logprobs[6 + i, chunk.prompt[i + 1]]) for i in range(4)]
    assert result.prompt_logprobs[2] == pytest.approx(expected, abs=1e-5)
    ranks = [int((logprobs[1 + i] >= logprobs[1 + i, prompt.prompt[i + 1]]).sum()) for i in range(4)]
    assert result.prompt_ranks == {1: ranks}
    assert result.prompt_top_logprobs == {
        1: [likeliest(logprobs[1 + i], 3) for i in range(4)],
        2: [likeliest(logprobs[6 + i], 4) for i in range(4)],
    }
    assert result.probed == {3: pytest.approx(float(logprobs[11, 30].exp()), abs=1e-6)}
    assert result.logprobs is not None and result.top_logprobs is not None
    assert result.logprobs[1] == pytest.approx(float(logprobs[5, tokens[1]]), abs=1e-5)
    assert result.logprobs[3] == pytest.approx(float(logprobs[12, tokens[4]]), abs=1e-5)
    assert result.top_logprobs == [None, likeliest(logprobs[5], 2), None, None]


def test_a_step_that_draws_nothing_reads_a_prompt() -> None:
    chunk = request(0, [4, 8, 15, 16], prompt_logprobs=True)
    plan, step, sampler = step_of([chunk], [3], [False])
    logits = torch.randn(3, VOCAB)
    expected = logits.log_softmax(-1)[[0, 1, 2], [8, 15, 16]]
    result = sampler.sample(plan, step, logits)
    assert result.tokens == [] and result.prompt_logprobs == {0: pytest.approx(expected.tolist())}
    assert not result.prompt_top_logprobs


def test_candidates_of_searches_of_different_widths() -> None:
    requests = [request(row, [1 + row], banned_tokens=frozenset({row})) for row in range(4)]
    for row, width in ((0, 2), (3, 5)):
        requests[row].beam = BeamGroup(width, [requests[row]])
    plan, step, sampler = step_of(requests, [1] * 4, [True] * 4)
    logits = torch.randn(4, VOCAB, generator=torch.Generator().manual_seed(1))
    edited = logits.double().clone()
    edited[range(4), range(4)] = -torch.inf
    logprobs = edited.log_softmax(-1)
    result = sampler.sample(plan, step, logits)
    assert result.candidates == {0: likeliest(logprobs[0], 3), 3: likeliest(logprobs[3], 6)}


def test_masks_may_be_collected_before_the_logits_exist() -> None:
    class Grammar:
        def advance(self, token: int) -> None: ...

        def mask(self) -> Any:
            raise RuntimeError("asked too late")

    made = request(0, [1])
    made.constraint = Grammar()
    plan, step, sampler = step_of([made, request(1, [2])], [1, 1], [True, True])
    masks = sampler.masks(plan)
    assert isinstance(masks[0], RuntimeError) and masks[1] is None
    failed: StepResult = sampler.sample(plan, step, torch.randn(2, VOCAB), masks)
    assert failed.failures == {0: "RuntimeError: asked too late"} and len(failed.tokens) == 2
    given = sampler.sample(plan, step, torch.zeros(2, VOCAB), [np.array([0, 2], np.uint8), None])
    assert given.tokens == [9, 0] and not given.failures


def test_a_transfer_keeps_types_shapes_and_bits() -> None:
    transfer = Transfer()
    whole, real = torch.tensor([[1, -5], [7, 2**31 - 1]]), torch.tensor([[0.1, -torch.inf, torch.nan]])
    numbers = [transfer.add(tensor) for tensor in (whole, real, torch.zeros(0), real[:, 1])]
    transfer.fetch()
    assert transfer[numbers[0]].tolist() == whole.tolist()
    assert transfer[numbers[1]].tobytes() == real.numpy().tobytes()
    assert transfer[numbers[2]].shape == (0,) and transfer[numbers[3]].tolist() == [-float("inf")]


def test_a_draw_makes_no_tensor_that_a_device_would_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.tensor` copies pageable memory, which waits for the stream: rows and tokens go up by `upload`."""
    requests = [request(0, [5]), request(1, [3, 7, 9], prompt_logprobs=True, logprobs=2), request(2, [1, 2, 3])]
    requests[0].beam = BeamGroup(2, [requests[0]])
    requests[2].probe = (1, 30)
    plan, step, sampler = step_of(requests, [1, 3, 3], [True, True, True])
    logits = torch.randn(len(step.batch.logit_rows), VOCAB)

    def refuse(*values: Any, **options: Any) -> torch.Tensor:
        raise AssertionError("torch.tensor in a draw")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "tensor", refuse)
        drawn = sampler.draw(plan, step, logits)
    result = drawn.result()
    assert len(result.tokens) == 3 and set(result.candidates) == {0} and set(result.probed) == {2}
