"""`DeviceSynthesisExecutor`: runs the stages of a speech model on a GPU for the utterances of many requests at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from antiphon.engine.plan import StepPlan
from antiphon.executor.device.one_shot import OneShotExecutor, Outputs
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.synthesis import gathered, keep
from antiphon.models.base.parts import SynthesisStages
from antiphon.models.base.speech_state import SpeechState, join
from antiphon.ops import Device


def _together(function: Callable[[SpeechState], SpeechState], states: Sequence[SpeechState]) -> list[SpeechState]:
    return [function(join(states))]


class DeviceSynthesisExecutor(OneShotExecutor):
    """Computes the utterances of each stage as one padded batch.

    The durations of phonemes and the samples come to the host, each in one transfer at the end of a stage. A request
    gets its new state with the result, so that a request whose stage failed still has its previous state.
    """

    def __init__(self, synthesis: SynthesisStages, device: Device) -> None:
        super().__init__(device, record=False)  # sizes follow from the utterances: few occur twice
        self._synthesis = synthesis

    def _launch(self, plan: StepPlan, transfer: Transfer) -> Outputs:
        """Launch a stage without TF32 in cuDNN: durations and pitch need the full precision of fp32."""
        states, order = gathered(plan)
        with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            states = self._synthesis.advance(plan.stage, states, _together)
        is_last = plan.stage == len(self._synthesis.stages) - 1
        numbers = [_add(transfer, state, is_last) for state in states]

        def outputs(arrived: Transfer) -> list[Any]:
            pairs = zip(states, numbers, strict=True)
            known = [_arrived(state, arrived, counts, samples) for state, (counts, samples) in pairs]
            return keep(plan, known, order, self._synthesis) or []

        return outputs


def _add(transfer: Transfer, state: SpeechState, is_last: bool) -> tuple[int | None, int | None]:
    """Add the tensors that the host needs after a stage to a transfer: counts when first known, and final samples.

    Return their numbers in the transfer, or None.
    """
    is_timed = state.id_frames is not None or "counts" not in state.tensors
    counts = None if is_timed else transfer.add(state.tensors["counts"])
    return counts, transfer.add(state.tensors["samples"]) if is_last else None


def _arrived(state: SpeechState, transfer: Transfer, counts: int | None, samples: int | None) -> SpeechState:
    """Return the state with the counts and samples that have arrived, by their numbers in the transfer."""
    if counts is not None:
        state = state.timed(transfer[counts].tolist())
    if samples is not None:
        state = state.with_(samples=torch.from_numpy(transfer[samples]))
    return state
