"""Steps of plain decodes run as one native call, whatever requests were computed before them."""

from __future__ import annotations

import pytest

from antiphon.engine.core import EngineCore
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
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
