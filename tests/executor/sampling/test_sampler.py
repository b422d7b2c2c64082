"""What each sampling parameter does to the draw, against plain computations over one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from antiphon import ops
from antiphon.engine.plan import RowSetup, StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError
from antiphon.executor.rows import RowStore
from antiphon.executor.sampling.edit_batch import EditBatch
from antiphon.executor.sampling.sampler import DrawnTokens, Sampler
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.step_batch import build_step
from antiphon.ops import CacheGroup, CacheKind, CacheLayout, LogitEditRows

VOCAB = 50


def make_request(row: int = 0, prompt: Sequence[int] = (1, 2), output: Sequence[int] = (), **params: Any) -> Request:
    stop_ids = params.pop("stop_ids", frozenset())
    request = Request(f"r{row}", "m", list(prompt), SamplingParams(**params), stop_ids=stop_ids)
    request.tokens += list(output)
    request.row = row
    return request


def run(requests: list[Request], logits: torch.Tensor, steps: int = 1) -> list[StepResult]:
    """Draw for decoding requests, whose tokens grow by what is drawn."""
    layout = CacheLayout(CacheGroup("self", CacheKind.FULL, 1, 1, 16))
    store = RowStore(8, [layout], [256])
    sampler = Sampler(store, VOCAB)
    results = []
    for step in range(steps):
        plan = StepPlan("m")
        if not step:
            plan.row_setups = [RowSetup(request, [[0] * 16]) for request in requests]
        plan.requests = list(requests)
        plan.starts = [request.num_tokens - 1 for request in requests]
        plan.counts, plan.samples = [1] * len(requests), [True] * len(requests)
        plan.num_decodes = plan.num_tokens = len(requests)
        store.apply(plan)
        sampler.set_up(plan)
        results.append(sampler.sample(plan, build_step(plan, store), logits.clone()))
        for request, token in zip(requests, results[-1].tokens, strict=True):
            request.tokens.append(token)
    return results


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(3)) * 2


def edited(logits: torch.Tensor, request: Request) -> torch.Tensor:
    edits = EditBatch(VOCAB, torch.device("cpu"))
    edits.set_up(request)
    found = logits.clone()
    ops.edit_logits(found, edits.build([request.row], [None])[0])
    return found[0]


def keep_typical(row: torch.Tensor, temperature: float, typical_p: float) -> None:
    ops.edit_logits(row[None], LogitEditRows(typical=torch.tensor([[typical_p, temperature]])))


def test_padding_rows_of_the_head_are_never_drawn() -> None:
    logits = torch.zeros(1, VOCAB + 6)
    logits[0, VOCAB + 2] = 100
    logits[0, 4] = 1
    assert run([make_request()], logits)[0].tokens == [4]


def test_logit_bias_allowed_and_banned(logits: torch.Tensor) -> None:
    best = int(logits.argmax())
    second = int(logits[0].topk(2).indices[1])
    assert run([make_request(banned_tokens=frozenset({best}))], logits)[0].tokens == [second]
    assert run([make_request(logit_bias={best: -100.0})], logits)[0].tokens == [second]
    assert run([make_request(logit_bias={7: 100.0})], logits)[0].tokens == [7]
    assert run([make_request(allowed_tokens=frozenset({11, 12}))], logits)[0].tokens[0] in (11, 12)
    row = edited(logits, make_request(allowed_tokens=frozenset({11, 12})))
    assert torch.isfinite(row).nonzero().flatten().tolist() == [11, 12]


def test_minimum_length_holds_back_the_end(logits: torch.Tensor) -> None:
    end = int(logits.argmax())
    request = make_request(min_tokens=2, stop_ids=frozenset({end}))
    drawn = [result.tokens[0] for result in run([request], logits, steps=3)]
    assert end not in drawn[:2] and drawn[2] == end


def test_penalties_follow_their_formulas(logits: torch.Tensor) -> None:
    request = make_request(
        prompt=(1, 2, 2), output=(5, 5, 6), repetition_penalty=1.5, presence_penalty=0.3, frequency_penalty=0.2
    )
    expected = logits[0].double().numpy().copy()
    for token in (1, 2, 5, 6):
        expected[token] = expected[token] / 1.5 if expected[token] > 0 else expected[token] * 1.5
    expected[5] -= 0.3 + 0.2 * 2
    expected[6] -= 0.3 + 0.2 * 1
    np.testing.assert_allclose(edited(logits, request).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_frequency_penalty_counts_what_is_drawn() -> None:
    """Two near ties take turns once every use costs something."""
    logits = torch.full((1, VOCAB), -50.0)
    logits[0, 3], logits[0, 4] = 1.0, 0.9
    tokens = [result.tokens[0] for result in run([make_request(frequency_penalty=0.15)], logits, steps=4)]
    assert tokens == [3, 4, 3, 4]
    assert [result.tokens[0] for result in run([make_request()], logits, steps=3)] == [3, 3, 3]


def test_typical_keeps_a_token_whatever_its_share() -> None:
    row = torch.full((50,), float("-inf"))
    row[[7, 9]] = torch.tensor([1.0, 0.5])
    keep_typical(row, 1.0, 5e-324)  # 0 in single precision
    assert row.isfinite().nonzero().flatten().tolist() in ([7], [9])


def test_typical_keeps_tokens_near_the_entropy() -> None:
    logits = torch.tensor([4.0, 3.5, 3.4, 0.0, -1.0, -8.0])
    probabilities = logits.double().softmax(-1).numpy()
    entropy = -(probabilities * np.log(probabilities)).sum()
    order = np.argsort(np.abs(-np.log(probabilities) - entropy), kind="stable")
    kept, total = set(), 0.0
    for token in order:
        if total >= 0.6:
            break
        kept.add(int(token))
        total += probabilities[token]
    row = logits.clone()
    keep_typical(row, 1.0, 0.6)
    assert set(torch.isfinite(row).nonzero().flatten().tolist()) == kept
    assert 0 < len(kept) < 6


def test_rows_do_not_touch_each_other(logits: torch.Tensor) -> None:
    """A greedy row beside edited and random rows draws what it draws alone."""
    batch = logits.expand(4, -1).contiguous()
    requests = [
        make_request(0),
        make_request(1, temperature=1.3, top_k=5, seed=9),
        make_request(2, banned_tokens=frozenset({int(logits.argmax())})),
        make_request(3, temperature=0.7, top_p=0.8, seed=4, frequency_penalty=1.0),
    ]
    together = [result.tokens for result in run(requests, batch, steps=6)]
    for row, request in enumerate(requests):
        alone = make_request(0, **{name: getattr(request.params, name) for name in _changed(request.params)})
        assert [result.tokens[0] for result in run([alone], logits, steps=6)] == [tokens[row] for tokens in together]


def _changed(params: SamplingParams) -> list[str]:
    default = SamplingParams()
    return [name for name in params.__dataclass_fields__ if getattr(params, name) != getattr(default, name)]


def test_logprobs_are_of_the_raw_logits(logits: torch.Tensor) -> None:
    best = int(logits.argmax())
    request = make_request(logprobs=3, banned_tokens=frozenset({best}))
    result = run([request], logits)[0]
    expected = logits[0].double().log_softmax(-1)
    assert result.logprobs is not None and result.top_logprobs is not None
    assert result.logprobs[0] == pytest.approx(expected[result.tokens[0]].item(), abs=1e-5)
    top = result.top_logprobs[0]
    assert top is not None
    assert [token for token, _ in top] == expected.topk(3).indices.tolist()
    assert top[0][1] == pytest.approx(expected.max().item(), abs=1e-5)


def test_the_same_seed_gives_the_same_tokens_whatever_the_backend(logits: torch.Tensor) -> None:
    drawn = []
    for backend in ops.available_backends():
        with ops.use_backend(backend):
            request = make_request(temperature=1.0, top_p=0.95, seed=123)
            drawn.append([result.tokens[0] for result in run([request], logits, steps=20)])
    assert all(tokens == drawn[0] for tokens in drawn)
    assert len(set(drawn[0])) > 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1), ("temperature", float("nan")), ("top_p", 0.0), ("top_p", 1.1), ("top_k", -1),
        ("min_p", 2.0), ("typical_p", 0.0), ("repetition_penalty", 0.0), ("presence_penalty", 1e9), ("max_tokens", 0),
        ("min_tokens", 10_000), ("stop", ("",)), ("logprobs", 21), ("seed", 2**63), ("allowed_tokens", frozenset()),
    ],
)  # fmt: skip
def test_senseless_parameters_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        SamplingParams(**{name: value})


class LostEvent:
    """Of a device whose context is lost."""

    def query(self) -> bool:
        raise RuntimeError("CUDA error: an illegal memory access")

    synchronize = query


def test_a_fault_of_the_device_is_raised_by_the_result_alone() -> None:
    transfer = Transfer()
    transfer.add(torch.zeros(2))
    transfer.start()
    transfer._arrived = LostEvent()  # type: ignore[assignment]
    drawn = DrawnTokens(transfer)
    assert drawn.done()
    with pytest.raises(RuntimeError, match="an illegal memory access"):
        drawn.result()
