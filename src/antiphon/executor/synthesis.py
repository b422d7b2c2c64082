"""`SynthesisExecutor`: runs the stages of a speech model for the utterances of many requests at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.executor.handle import DoneHandle
from antiphon.executor.side_by_side import SideBySide
from antiphon.models.base.parts import SynthesisStages
from antiphon.models.base.speech_state import Speech, SpeechState


@dataclass(frozen=True)
class StateRow:
    """Row of a request in a state between two stages."""

    state: SpeechState
    row: int


class SynthesisExecutor:
    """Runs the stages of speech synthesis on the CPU.

    Between stages a request's state is kept in its `result`, so that an aborted request leaves nothing behind.
    """

    def __init__(self, synthesis: SynthesisStages) -> None:
        self._synthesis = synthesis
        self._side_by_side = SideBySide()

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        states, order = gathered(plan)
        built = time.perf_counter()
        with torch.inference_mode():
            states = self._synthesis.advance(plan.stage, states, self._for_each)
        outputs = keep(plan, states, order, self._synthesis)
        timings = {"build": built - begun, "run": time.perf_counter() - built}
        return DoneHandle(StepResult([], outputs=outputs, timings=timings))

    def _for_each(
        self, function: Callable[[SpeechState], SpeechState], states: Sequence[SpeechState]
    ) -> list[SpeechState]:
        return self._side_by_side.map(function, states, _size)

    def close(self) -> None:
        self._side_by_side.close()


def keep(
    plan: StepPlan, states: Sequence[SpeechState], order: Sequence[int], synthesis: SynthesisStages
) -> list[Speech] | None:
    """Store each request's row of the states as its `result`; after the last stage, return the requests' speech."""
    if plan.stage == len(synthesis.stages) - 1:
        speeches = [speech for state in states for speech in synthesis.speech(state)]
        return [speeches[index] for index in order]
    rows = [StateRow(state, row) for state in states for row in range(len(state.utterances))]
    for request, index in zip(plan.requests, order, strict=True):
        request.result = rows[index]
    return None


def _size(state: SpeechState) -> int:
    return sum(len(utterance.ids) for utterance in state.utterances)


def gathered(plan: StepPlan) -> tuple[list[SpeechState], list[int]]:
    """Return the states of the plan's requests, without other requests' rows, and each request's row among them."""
    if plan.stage == 0:
        return [SpeechState((request.inputs,)) for request in plan.requests], list(range(len(plan.requests)))
    groups: dict[int, list[tuple[int, Request]]] = {}
    for index, request in enumerate(plan.requests):
        groups.setdefault(id(request.result.state), []).append((index, request))
    states: list[SpeechState] = []
    order = [0] * len(plan.requests)
    position = 0
    for members in groups.values():
        state = members[0][1].result.state
        states.append(state.take([request.result.row for _, request in members]))
        for index, _ in members:
            order[index] = position
            position += 1
    return states, order
