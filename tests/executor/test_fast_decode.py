"""Steps of plain decodes run as one native call, whatever requests were computed before them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon.engine.core import EngineCore
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.drafting import Draft
from antiphon.engine.speculation.speculator import Speculator
from antiphon.executor.decoder.decode_step import DecodeStep
from antiphon.ops import native
from support.engine.model_core import MODEL, make_core

pytestmark = pytest.mark.skipif(not native.available(), reason="programs need the native extension")


@pytest.fixture
def fast_steps(monkeypatch: pytest.MonkeyPatch) -> list[StepPlan]:
    """The plans that took the fast path."""
    taken: list[StepPlan] = []
    run = DecodeStep.run

    def counted(self: DecodeStep, plan: StepPlan, begun: float) -> StepResult:
        taken.append(plan)
        return run(self, plan, begun)

    monkeypatch.setattr(DecodeStep, "run", counted)
    return taken


def run(core: EngineCore, *requests: Request) -> None:
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()


def plain(name: str, count: int = 6) -> Request:
    return Request(name, MODEL, [40, 41, 42], SamplingParams(max_tokens=count))


def edited(name: str, count: int = 6) -> Request:
    return Request(name, MODEL, [50, 51, 52], SamplingParams(max_tokens=count, frequency_penalty=0.5))


def test_a_finished_request_with_edits_does_not_slow_later_ones(fast_steps: list[StepPlan]) -> None:
    """The edited request has a row that the later one does not take over."""
    core, _ = make_core()
    run(core, edited("edited"), plain("first"))
    assert not fast_steps
    run(core, plain("later"))
    assert len(fast_steps) == 5, "every step but the prompt's"


def test_a_plain_request_that_outlives_an_edited_one_is_fast_again(fast_steps: list[StepPlan]) -> None:
    core, _ = make_core()
    run(core, plain("long", 12), edited("short", 5))
    assert len(fast_steps) == 12 - 5


def test_edits_are_freed_with_their_request() -> None:
    core, executor = make_core()
    run(core, edited("edited"), plain("first"))
    run(core, plain("later"))
    assert not executor._sampler._edits


def test_the_fast_path_draws_the_same_tokens() -> None:
    core, _ = make_core()
    alone = plain("alone", 12)
    run(core, alone)
    beside = plain("beside", 12)
    run(core, beside, edited("edited", 5))
    assert beside.output == alone.output


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_are_verified_by_the_fast_path(
    fast_steps: list[StepPlan], temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a request without one: all that is right is kept, and nothing behind the first token that is not."""

    def always(_: Speculator, drafts: Sequence[Draft], *__: int) -> list[int]:
        return [min(4, len(draft.tokens)) for draft in drafts]

    monkeypatch.setattr(Speculator, "_lengths", always)  # not as long as measured times say that they pay
    params = SamplingParams(max_tokens=24, temperature=temperature, seed=3)
    core, _ = make_core()
    alone = Request("alone", MODEL, [40, 41, 42], params)
    run(core, alone)
    wrong = [*alone.output[:9], (alone.output[9] + 1) % 50, *alone.output[10:]]
    for guess in (alone.output, wrong):
        fast_steps.clear()
        drafted = Request("drafted", MODEL, [40, 41, 42], params, speculates=True, guess=guess)
        beside = plain("beside", 12)
        run(core, drafted, beside)
        assert drafted.output == alone.output and beside.output == plain_output(core)
        assert any(len(step.drafts) == 1 and step.num_decodes == 1 for step in fast_steps)
        assert 3 < drafted.drafted.accepted <= drafted.drafted.proposed
    assert drafted.drafted.accepted < drafted.drafted.proposed


def plain_output(core: EngineCore) -> list[int]:
    again = plain("again", 12)
    run(core, again)
    return list(again.output)


def test_numbers_of_drafts_must_fit(fast_steps: list[StepPlan]) -> None:
    core, executor = make_core()
    run(core, plain("first"))
    (step,) = executor._decode_steps.values()
    for drafted, drafts in (([1], [4]), ([1, 1], [4]), ([-1, 1], [4, 5]), ([], [4])):
        with pytest.raises(ValueError, match=f"drafts of {len(drafts)} tokens"):
            step._native.run([0, 1], [3, 3], drafted, drafts, 0, 50, 1, 0)
