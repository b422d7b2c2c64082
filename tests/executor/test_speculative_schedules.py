"""Random schedules in which requests speculate: every answer is the one of a request alone without speculation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from antiphon.engine.request import FinishReason, Request
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.speculation.drafting import Draft
from antiphon.engine.speculation.ngrams import NgramIndex
from antiphon.engine.speculation.speculator import Speculator
from support.engine.mixed_requests import answer_of, is_beginning
from support.engine.mixed_schedules import expected, new_seeds, random_core, run_cases
from support.engine.model_core import MODEL, PLAIN, VOCABULARY, Cached


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Drafts are cut at random positions instead of where they pay; the source that decides."""
    source = random.Random(0)

    def any_lengths(_: Speculator, drafts: Sequence[Draft], num_answering: int, context: int, room: int) -> list[int]:
        found = []
        for draft in drafts:
            length = min(room, len(draft.tokens), source.choice([0, 1, 2, 3, 5, 8, 16]))
            found.append(length)
            room -= length
        return found

    monkeypatch.setattr(Speculator, "_lengths", any_lengths)
    return source


def damaged(source: random.Random, answer: list[int]) -> list[int]:
    """A guess between the answer itself and nothing of it."""
    rate = source.choice([0.0, 0.1, 0.3, 1.0])
    guess = [source.randrange(VOCABULARY) if source.random() < rate else token for token in answer]
    return guess[source.choice([0, 0, 1]) :]


@pytest.fixture
def passes(lengths: random.Random, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """The draft model drafts for random requests, and so many tokens, instead of where that pays."""

    def any_passes(
        self: Speculator, requests: Sequence[Request], num_answering: int, context: int
    ) -> tuple[list[Request], int]:
        chosen = [request for request in requests if request.limit - request.num_tokens > 1 and lengths.random() < 0.7]
        for request in chosen:
            self._search(request)
        return chosen, lengths.choice([1, 2, 3, 5])

    monkeypatch.setattr(Speculator, "passes", any_passes)
    return lengths


@pytest.fixture
def waits(lengths: random.Random, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Random requests wait for the token that is being drawn, instead of where that pays."""

    def any_waits(_: Speculator, running: Sequence[Request]) -> set[int]:
        pending = [request for request in running if request.num_pending_samples]
        if any(request.uses_draft_model for request in pending) and lengths.random() < 0.3:
            return set(map(id, pending))  # a draft model drafts when all are known to their newest token
        return {id(request) for request in pending if request.speculates and lengths.random() < 0.7}

    monkeypatch.setattr(Speculator, "waiting", any_waits)
    return lengths


def run_schedule(
    seed: int, lengths: random.Random, cached: Cached = PLAIN, draft_noise: float | None = None, depth: int = 1
) -> Counter[str]:
    """What happened is counted. With `draft_noise` there are no guesses, but a draft model."""
    source = random.Random(seed)
    lengths.seed(seed)
    core, _ = random_core(source, depth=depth, cached=cached, draft_noise=draft_noise)

    def prepare(kind: str, prompt: int, requests: list[Request]) -> None:
        for request, answer in zip(requests, expected(kind, prompt, cached), strict=True):
            request.speculates = source.random() < 0.75
            request.guess = damaged(source, answer[0]) if draft_noise is None and source.random() < 0.8 else ()
            request.uses_draft_model = request.speculates and draft_noise is not None

    everyone, steps = run_cases(core, source, prepare)
    events: Counter[str] = Counter(steps=steps)
    for kind, prompt, requests in everyone:
        for request, answer in zip(requests, expected(kind, prompt, cached), strict=True):
            events[str(request.finish_reason)] += 1
            events["preemptions"] += request.marks.preemptions
            events["cached tokens"] += request.num_cached_tokens
            events["drafted by " + kind] += request.drafted.proposed
            events["accepted of " + kind] += request.drafted.accepted
            if request.finish_reason is FinishReason.CANCELLED:
                assert is_beginning(request, answer), f"seed {seed}, {request.id}: {request.output}, not {answer}"
            else:
                assert answer_of(request) == answer, f"seed {seed}, {request.id}"
    scheduler = core.slots[MODEL].scheduler
    assert isinstance(scheduler, Scheduler)
    events["swaps"] += scheduler.counters.swaps_in
    events["drafted"] += scheduler.counters.drafts.proposed
    events["accepted"] += scheduler.counters.drafts.accepted
    core.remove_model(MODEL)
    return events


def check_hard(events: Counter[str]) -> None:
    """The schedules had everything in them, and every kind of request kept drafts and rejected some."""
    for name in ("preemptions", "cached tokens", "swaps", "stop", "length", "failed", "cancelled"):
        assert events[name], f"the schedules have no {name}: {events}"
    assert events["accepted"] > 0.3 * events["drafted"], events
    kinds = {name.removeprefix("drafted by ") for name in events if name.startswith("drafted by ")} - {"beams"}
    for kind in kinds:
        drafted, accepted = events["drafted by " + kind], events["accepted of " + kind]
        assert 0 < accepted < drafted, f"{kind}: {accepted} of {drafted}"
    assert not events["drafted by beams"]


@pytest.mark.long("two dozen random schedules, each with drafts and without")
def test_drafts_change_no_answer(lengths: random.Random) -> None:
    total: Counter[str] = Counter()
    for seed in range(24):
        total += run_schedule(seed, lengths)
    check_hard(total)


@pytest.mark.long("two dozen random schedules, each with drafts and without")
def test_drafts_beside_steps_in_flight_change_no_answer(waits: random.Random) -> None:
    """Some requests wait for their tokens and have drafts then, others go on: two steps are in flight."""
    total: Counter[str] = Counter()
    for seed in range(300, 324):
        total += run_schedule(seed, waits, depth=2)
    check_hard(total)


def test_what_pays_with_steps_in_flight_changes_no_answer() -> None:
    """Lengths and waits as the measured times have them."""
    for seed in range(330, 336):
        run_schedule(seed, random.Random(), depth=2)


CACHED = {
    "fp16": Cached(torch.float16), "int8": Cached(torch.int8), "window": Cached(window=7),
    "int8 window": Cached(torch.int8, window=5),
}  # fmt: skip


@pytest.mark.parametrize("cached", CACHED.values(), ids=list(CACHED))
def test_drafts_in_other_caches_change_no_answer(cached: Cached, lengths: random.Random) -> None:
    """A rejected token's slot in a page is written again, and the window ends at the tokens that were kept."""
    total: Counter[str] = Counter()
    for seed in range(500, 504):
        total += run_schedule(seed, lengths, cached)
    assert total["accepted"] > 0.3 * total["drafted"] > 0


@pytest.mark.parametrize("cached", [PLAIN, *CACHED.values()], ids=["fp32", *CACHED])
def test_drafts_of_a_model_change_no_answer(cached: Cached, passes: random.Random) -> None:
    total: Counter[str] = Counter()
    for seed in range(700, 705):
        total += run_schedule(seed, passes, cached, draft_noise=0.3)
    assert total["drafted"] > total["accepted"] > 0.3 * total["drafted"], total


def test_drafts_of_a_model_beside_steps_in_flight_change_no_answer(passes: random.Random, waits: random.Random) -> None:
    total: Counter[str] = Counter()
    for seed in range(760, 766):
        total += run_schedule(seed, passes, draft_noise=0.3, depth=2)
    assert total["drafted"] > total["accepted"] > 0.3 * total["drafted"], total


def test_a_model_where_it_pays_with_steps_in_flight_changes_no_answer() -> None:
    for seed in range(780, 783):
        run_schedule(seed, random.Random(), draft_noise=0.1, depth=2)


def test_a_model_that_drafts_for_itself_is_always_right(passes: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where tokens are drawn at a temperature: a draft is drawn with the request's own seed and index."""
    monkeypatch.setattr(NgramIndex, "follow", lambda *_: ([], 0))
    total: Counter[str] = Counter()
    for seed in range(720, 732):
        total += run_schedule(seed, passes, draft_noise=0.0)
    drafted = {name: total["drafted by " + name] for name in ("greedy", "drawn", "typical")}
    assert all(drafted.values()), total
    assert drafted == {name: total["accepted of " + name] for name in drafted}


@pytest.mark.soak
def test_many_schedules_with_a_draft_model(passes: random.Random) -> None:
    every = [PLAIN, *CACHED.values()]
    for seed in new_seeds(300):
        run_schedule(seed, passes, every[seed % len(every)], draft_noise=(seed % 4) / 8)


@pytest.mark.soak
def test_many_speculative_schedules(lengths: random.Random) -> None:
    every = [PLAIN, *CACHED.values()]
    for seed in new_seeds(600):
        run_schedule(seed, lengths, every[seed % len(every)])


@pytest.mark.soak
def test_many_schedules_with_steps_in_flight(passes: random.Random, waits: random.Random) -> None:
    every = [PLAIN, *CACHED.values()]
    for seed in new_seeds(600):
        noise = (seed % 4) / 8 if seed % 3 == 0 else None
        run_schedule(seed, waits, every[seed % len(every)], draft_noise=noise, depth=2)
