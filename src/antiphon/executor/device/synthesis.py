"""`DeviceSynthesisExecutor`: the stages of a speech model on a GPU, for the utterances of many requests at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial

import torch

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.device.stage_handle import StageHandle
from antiphon.executor.sampling.transfer import Transfer
from antiphon.executor.synthesis import gathered, keep
from antiphon.models.base.parts import SynthesisStages
from antiphon.models.base.speech_state import SpeechState, join
from antiphon.ops import Device


def _together(function: Callable[[SpeechState], SpeechState], states: Sequence[SpeechState]) -> list[SpeechState]:
    return [function(join(states))]


class DeviceSynthesisExecutor:
    """Every stage computes its utterances as one padded batch. Nothing waits for the device but a stage's result.

    Two things come to the host, each in one transfer at the end of a stage: how long every phoneme lasts, and the
    samples. A request gets its new state with the result, so that one whose stage failed still has the one before.
    """

    def __init__(self, synthesis: SynthesisStages, device: Device) -> None:
        self._synthesis, self._device = synthesis, device
        #: Waits for stages where an engine has several devices.
        self._waiter = ThreadPoolExecutor(1, f"antiphon-{device.name}-speech")
        if device.stream is not None:
            torch.cuda.synchronize(device.torch)  # weights were made on another stream than stages use

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """On the device's stream, with cuDNN's 32-bit factors not rounded to TF32: durations and pitch depend on them.

        16-bit convolutions are not affected.
        """
        stream = self._device.stream
        with (
            torch.inference_mode(),
            nullcontext() if stream is None else torch.cuda.stream(stream),
            torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False),
        ):
            yield

    def _event(self) -> torch.cuda.Event | None:
        """Now, on the device."""
        if self._device.stream is None:
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def submit(self, plan: StepPlan) -> StageHandle:
        """Launch the stage and the transfer of what the host needs of it."""
        begun = time.perf_counter()
        with self._computing():
            started = self._event()
            states, order = gathered(plan)
            states = self._synthesis.advance(plan.stage, states, _together)
            is_last = plan.stage == len(self._synthesis.stages) - 1
            transfer = Transfer()
            numbers = [_add(transfer, state, is_last) for state in states]
            transfer.start()
            ended = self._event()
        build = time.perf_counter() - begun
        finish = partial(self._finish, plan, states, order, transfer, numbers, build)
        return StageHandle(transfer, finish, self._waiter, started, ended)

    def _finish(
        self,
        plan: StepPlan,
        states: Sequence[SpeechState],
        order: Sequence[int],
        transfer: Transfer,
        numbers: Sequence[tuple[int | None, int | None]],
        build: float,
    ) -> StepResult:
        arrived = [_arrived(state, transfer, *own) for state, own in zip(states, numbers, strict=True)]
        return StepResult([], outputs=keep(plan, arrived, order, self._synthesis), timings={"build": build})

    def close(self) -> None:
        if self._device.stream is not None:
            self._device.stream.synchronize()
        self._waiter.shutdown(wait=False)


def _add(transfer: Transfer, state: SpeechState, is_last: bool) -> tuple[int | None, int | None]:
    """Add what the host needs after a stage to a transfer: the counts once they are known, and the samples."""
    is_timed = state.id_frames is not None or "counts" not in state.tensors
    counts = None if is_timed else transfer.add(state.tensors["counts"])
    return counts, transfer.add(state.tensors["samples"]) if is_last else None


def _arrived(state: SpeechState, transfer: Transfer, counts: int | None, samples: int | None) -> SpeechState:
    """The state with what has arrived; the samples are copied, so that the transfer's pinned memory is free again."""
    if counts is not None:
        state = state.timed(transfer[counts].tolist())
    if samples is not None:
        state = state.with_(samples=torch.from_numpy(transfer[samples].copy()))
    return state
