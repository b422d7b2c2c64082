"""Share of the minimum times that an engine reaches, measured on a short prefill and a short decode."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.telemetry import StepRecord
from antiphon.errors import UnsupportedError
from antiphon.models.base.model import Task
from antiphon.ops.program.profile import KindTime
from antiphon.runtime.analysis.analysis import DECODE, PREFILL, Analysis
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.frontend.profile import ModelProfile
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.weights.catalog.model_tasks import KINDS

#: Tokens that each request decodes.
DECODED = 32
#: First seed of warm-up prompts, which touch memory and compile kernels before anything is timed.
WARM_UP = 1000
#: Minimum rounds and seconds for which a GPU runs before it is timed.
WARM_TURNS, WARM_SECONDS = 3, 1.0


@dataclass(frozen=True)
class Reached:
    """Measured steps of one phase: their time, and the minimum time that they could have taken.

    `kinds` are the instructions of all steps of the phase; None if the device does not time them.
    """

    phase: str
    num_steps: int
    num_tokens: int
    seconds: float
    floor_seconds: float
    total_seconds: float
    kinds: list[KindTime] | None

    @property
    def share(self) -> float:
        return self.floor_seconds / self.seconds


def check_can_run(name: str, task: Task) -> None:
    """Reject models that do not generate text."""
    if task is not Task.GENERATE:
        kind = KINDS.get(task, f"for {task}")
        raise UnsupportedError(f"{name} is {kind}; --profile is for models that generate text")


def measure(loaded: LoadedModel, analysis: Analysis, config: EngineConfig) -> list[Reached]:
    """Measure a prefill and a decode of the analyzed sizes in an engine of the model's own."""
    check_can_run(loaded.name, loaded.model.task)
    block, most = config.block_tokens, loaded.model.max_positions - DECODED - 1
    # All but the last token of these prompts are whole blocks, which the prefix cache keeps: every step is a decode.
    # Half of the steps come after fewer tokens than the requested context, half after more.
    start = max(0, min(analysis.context - DECODED // 2, most)) // block * block + 1
    with Engine(loaded, config=config) as engine:
        _warm_up(engine, loaded, analysis, block, start)
        engine.start_profile(analysis.limits)
        _generate(engine, _prompts(loaded, analysis.batch, analysis.prompt), 1)
        prefill = _profile(engine)
        prompts = _prompts(loaded, analysis.batch, start)
        _generate(engine, prompts, 1)
        engine.start_profile(analysis.limits)
        _generate(engine, prompts, DECODED)
        decode = _profile(engine)
    return [_prefilled(analysis, prefill), _decoded(analysis, decode, start - 1, loaded.device.is_cpu)]


def _warm_up(engine: Engine, loaded: LoadedModel, analysis: Analysis, block: int, start: int) -> None:
    """Run steps that are not timed.

    On a CPU short prompts are enough. A GPU compiles kernels and captures graphs per size, and raises its clock only
    while it is busy, so steps of the measured sizes run for a while.
    """
    batch = analysis.batch
    if loaded.device.is_cpu:
        _generate(engine, _prompts(loaded, batch, min(analysis.prompt, block), WARM_UP), 4)
        return
    begun, turn = time.monotonic(), 0
    while turn < WARM_TURNS or time.monotonic() < begun + WARM_SECONDS:
        _generate(engine, _prompts(loaded, batch, analysis.prompt, WARM_UP + 2 * turn * batch), 1)
        _generate(engine, _prompts(loaded, batch, start, WARM_UP + (2 * turn + 1) * batch), DECODED)
        turn += 1


def _prompts(loaded: LoadedModel, batch: int, length: int, seed: int = 0) -> list[list[int]]:
    """Return prompts of arbitrary tokens that differ between requests from the first token on."""
    size = loaded.tokenizer.vocab_size
    return [[(7 * position + 31 * (row + seed)) % size for position in range(length)] for row in range(batch)]


def _generate(engine: Engine, prompts: list[list[int]], tokens: int) -> None:
    engine.generate(prompts, SamplingParams(max_tokens=tokens, ignore_eos=True))


def _profile(engine: Engine) -> ModelProfile | None:
    return next(iter(engine.profiles()), None)


def _prefilled(analysis: Analysis, profile: ModelProfile | None) -> Reached:
    steps = [] if profile is None else [step for step in profile.steps if step.prefill_tokens]
    floor = analysis.phases[PREFILL].floor(analysis.limits).seconds
    return _reached(PREFILL, steps, floor, profile)


def _decoded(analysis: Analysis, profile: ModelProfile | None, context: int, is_cpu: bool) -> Reached:
    """Measure the steps that gave every request a token, the first after `context` tokens."""
    own = [] if profile is None else profile.steps
    steps = [step for step in own if step.decode_tokens == analysis.batch and not step.prefill_tokens]
    phase = analysis.phases[DECODE]
    floors = [phase.after(context + position).floor(analysis.limits).seconds for position in range(len(steps))]
    reached = _reached(DECODE, steps, sum(floors), profile)
    if is_cpu or len(steps) == 1:
        return reached
    # One step is planned and launched while another runs, so a step's time is the interval between two starts.
    return replace(reached, seconds=(steps[-1].start - steps[0].start) * len(steps) / (len(steps) - 1))


def _reached(phase: str, steps: Sequence[StepRecord], floor: float, profile: ModelProfile | None) -> Reached:
    if profile is None or not steps:
        raise UnsupportedError(f"no step of {phase} has run that could be measured; use a smaller batch")
    return Reached(
        phase,
        len(steps),
        sum(step.decode_tokens + step.prefill_tokens for step in steps),
        sum(step.seconds for step in steps),
        floor,
        profile.seconds,
        None if profile.program is None else [kind for kind in profile.program.kinds if kind.calls],
    )
