"""One-shot requests: stages in batches, the most urgent first, and every way to an end."""

from __future__ import annotations

import pytest

from antiphon.engine.one_shot import GROW_STEPS, OneShotScheduler
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import ContextLengthError, InvalidRequestError, OverloadedError


def scheduler(policy: str = "priority", **options: int) -> OneShotScheduler:
    settings = {"max_model_tokens": 50, "num_stages": 2, "max_step_tokens": 20, "max_waiting": 6, **options}
    return OneShotScheduler("voice", make_policy(policy), **settings)


def request(name: str, tokens: int = 8, **details: object) -> Request:
    return Request(name, "voice", [1] * tokens, SamplingParams(), task="synthesize", **details)  # type: ignore[arg-type]


def names(plan: StepPlan) -> list[str]:
    return [member.id for member in plan.requests]


def run(own: OneShotScheduler, now: float) -> list[str]:
    """Plan a step and commit it; whose it was."""
    plan = own.plan(now)
    own.commit(plan, StepResult([], outputs=[f"{name} done" for name in names(plan)]), now)
    own.check_integrity()
    return names(plan)


def test_stages_are_batched_up_to_the_cap() -> None:
    own = scheduler()
    members = [request(name) for name in "abc"]
    for member in members:
        own.add(member, 0.0)
    assert run(own, 1.0) == ["a", "b"]  # 16 of 20 tokens; the third would make 24
    assert run(own, 2.0) == ["a", "b"]
    assert [member.result for member in members] == ["a done", "b done", None]
    assert run(own, 3.0) == run(own, 4.0) == ["c"]
    assert all(member.finish_reason is FinishReason.STOP for member in members) and not own.has_work


def test_padded_members_count_as_the_longest() -> None:
    own = scheduler(max_step_tokens=40, is_padded=True)
    for name, tokens in (("a", 4), ("b", 4), ("c", 12), ("d", 4)):
        own.add(request(name, tokens), 0.0)
    assert names(own.plan(0.0)) == ["a", "b", "c"]  # three times twelve; with another one it would be four times


def test_as_many_as_the_executor_computes_side_by_side() -> None:
    own = scheduler(side_by_side=2, num_stages=4, max_step_tokens=40)
    own.add(request("a"), 0.0)
    assert run(own, 1.0) == ["a"]
    for name in "bcd":
        own.add(request(name), 1.5)
    assert run(own, 2.0) == ["b"]  # catches up
    assert [run(own, 3.0) for _ in range(3)] == [["a", "b"]] * 3
    assert [run(own, 4.0) for _ in range(4)] == [["c", "d"]] * 4
    assert not own.has_work


def test_a_step_that_runs_out_of_memory_is_halved() -> None:
    own = scheduler(max_step_tokens=40)
    members = [request(name) for name in "abcde"]
    for member in members:
        own.add(member, 0.0)
    plan = own.plan(1.0)
    assert names(plan) == ["a", "b", "c", "d", "e"]
    own.abort("b", FinishReason.CANCELLED, 1.5)
    assert own.shrink(plan)
    own.check_integrity()
    second = own.plan(2.0)
    assert names(second) == ["a", "c"]  # at most 20 tokens from now on
    assert own.shrink(second)
    third = own.plan(3.0)
    assert names(third) == ["a"]
    assert not own.shrink(third)  # one alone cannot be cut
    own.fail(third, "too large", 4.0)
    assert members[0].error == "too large"
    assert [run(own, 5.0) for _ in range(6)] == [["c"], ["c"], ["d"], ["d"], ["e"], ["e"]] and not own.has_work


def test_one_that_is_nearly_done_does_not_wait_for_others() -> None:
    own = scheduler(side_by_side=2, num_stages=4, max_step_tokens=40)
    own.add(request("a"), 0.0)
    assert run(own, 1.0) == run(own, 2.0) == ["a"]
    own.add(request("b"), 2.5)
    assert run(own, 3.0) == run(own, 4.0) == ["a"]
    own.add(request("now", priority=Priority.CRITICAL), 5.0)
    assert [run(own, 6.0) for _ in range(8)] == [["now"]] * 4 + [["b"]] * 4
    own.add(request("dry", priority=Priority.HIGH), 7.0)
    assert run(own, 8.0) == ["dry"]
    own.add(request("c"), 8.5)
    assert [run(own, 9.0) for _ in range(7)] == [["dry"]] * 3 + [["c"]] * 4  # nor one that is in a hurry


def test_one_larger_than_the_cap_runs_alone() -> None:
    own = scheduler()
    own.add(request("large", 40), 0.0)
    own.add(request("small", 2), 0.0)
    assert run(own, 1.0) == ["large"]


def test_a_critical_request_is_batched_with_no_less_urgent_one() -> None:
    own = scheduler()
    own.add(request("a", 4), 0.0)
    own.add(request("b", 4), 0.0)
    assert run(own, 1.0) == ["a", "b"]
    own.add(request("now", 4, priority=Priority.CRITICAL), 2.0)
    own.add(request("late", 4), 2.0)
    assert run(own, 3.0) == run(own, 4.0) == ["now"]
    assert run(own, 5.0) == ["a", "b"]


def test_who_needs_the_result_first_goes_first() -> None:
    own = scheduler(max_step_tokens=8)
    own.add(request("far ahead", due=30.0), 0.0)
    own.add(request("nearly dry", due=5.0), 0.5)
    own.add(request("new"), 1.0)
    assert [run(own, 2.0)[0] for _ in range(6)] == ["new"] * 2 + ["nearly dry"] * 2 + ["far ahead"] * 2


def test_a_request_that_waited_long_enough_is_not_passed_over() -> None:
    own = scheduler(max_step_tokens=8)
    own.add(request("late", due=1.0), 0.0)
    own.add(request("urgent", priority=Priority.HIGH), 10.0)
    assert run(own, 10.5) == ["urgent"]
    assert run(own, 11.5) == ["late"]  # for ten seconds


def test_no_request_waits_for_one_that_is_not_due() -> None:
    own = scheduler(max_step_tokens=8)
    own.add(request("far ahead", due=100.0), 0.0)
    own.add(request("new"), 50.0)
    assert run(own, 51.0) == run(own, 51.0) == ["new"]
    own.add(request("urgent", priority=Priority.HIGH), 51.0)
    assert run(own, 52.0) == run(own, 52.0) == ["urgent"]
    assert run(own, 53.0) == ["far ahead"]


def test_ends() -> None:
    own = scheduler()
    failed, gone, left = (request(name, 20) for name in ("f", "g", "l"))
    late = request("late", 20, deadline=3.0)
    for member in (failed, late, gone, left):
        own.add(member, 0.0)
    own.fail(own.plan(1.0), "no memory", 1.0)
    assert failed.finish_reason is FinishReason.FAILED and failed.error == "no memory"
    assert own.abort("g", FinishReason.DISCONNECTED, 2.0) and not own.abort("g", FinishReason.DISCONNECTED, 2.0)
    assert names(own.plan(4.0)) == ["l"] and late.finish_reason is FinishReason.DEADLINE
    own.close(5.0)
    assert left.finish_reason is FinishReason.CANCELLED and not own.has_work


def test_what_is_rejected() -> None:
    own = scheduler()
    with pytest.raises(InvalidRequestError, match="no tokens"):
        own.add(request("empty", 0), 0.0)
    with pytest.raises(ContextLengthError, match=r"51 tokens.*takes 50"):
        own.add(request("long", 51), 0.0)
    for index in range(6):
        own.add(request(str(index)), 0.0)
    with pytest.raises(OverloadedError, match="has 6 requests waiting; at most 6"):
        own.add(request("one too many"), 0.0)


def test_the_limit_grows_back_after_good_steps(caplog: pytest.LogCaptureFixture) -> None:
    own = scheduler(num_stages=1, max_step_tokens=40)
    for name in "abcd":
        own.add(request(name), 0.0)
    plan = own.plan(1.0)
    tokens = plan.num_tokens
    assert own.shrink(plan) and own.max_step_tokens == tokens // 2
    assert f"a step of 4 requests and {tokens} tokens ran out of memory; steps now have at most" in caplog.text
    own.close(2.0)
    limits = []
    for number in range(3 * GROW_STEPS):
        own.add(request(f"r{number}"), 3.0)
        run(own, 3.0)
        limits.append(own.max_step_tokens)
    assert limits[GROW_STEPS - 2] == tokens // 2 and limits[GROW_STEPS - 1] == min(40, tokens)
    assert limits[-1] == 40
