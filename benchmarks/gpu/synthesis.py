"""Synthesize utterances together with random weights of the full shape, on a device, and compare with the CPU.

    python benchmarks/gpu/synthesis.py [--device cuda] [--shape kokoro-82m] [--precision fast] [--output FILE]

Utterances go through the engine's scheduler and the device's executor, a step per stage. Printed are seconds of speech
per second of work, the milliseconds of every kind of stage on the device, and for one utterance the distance from the
same model in fp32 on the CPU: its durations, its pitch, and its samples from the same pitch.

A run before the measured ones compiles the kernels. `--device cpu` is slow at the full size; `--voices 2 --phonemes 20`
is small. `--no-check` leaves the comparison out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import torch
from torch import Tensor

from antiphon.engine.core import EngineCore, ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.device.synthesis import DeviceSynthesisExecutor
from antiphon.executor.synthesis import SynthesisExecutor
from antiphon.models.base.parts import SynthesisStages
from antiphon.models.base.speech_state import Speech, SpeechState, Utterance, upload
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.ops import Device
from antiphon.runtime.loading.weight_forms import PRECISIONS, WeightOptions
from antiphon.runtime.slots.synthesis import DEVICE_STEP_TOKENS, STEP_TOKENS
from support.models.random_voice import VOICE_SHAPES, random_utterance, random_voice

#: First stage that computes speech from given durations and pitch, by shape.
GIVEN_STAGE = {"hibari-6m": "decoder", "kokoro-82m": "source"}


def make_core(model: Synthesizer, device: Device) -> EngineCore:
    stages = model.part(SynthesisStages)
    assert stages is not None
    scheduler = OneShotScheduler(
        "voice", make_policy("fcfs"), max_model_tokens=model.max_positions, num_stages=len(model.stages),
        max_step_tokens=STEP_TOKENS if device.is_cpu else DEVICE_STEP_TOKENS,
    )  # fmt: skip
    core = EngineCore()
    executor = SynthesisExecutor(stages) if device.is_cpu else DeviceSynthesisExecutor(stages, device)
    core.add_model(ModelSlot("voice", scheduler, executor, translate=device.translate))
    return core


def speak(core: EngineCore, spoken: Sequence[Utterance], run: int) -> list[Speech]:
    requests = [
        Request(f"{run} {place}", "voice", list(utterance.ids), SamplingParams(), task="synthesize", inputs=utterance)
        for place, utterance in enumerate(spoken)
    ]
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
    failed = [request.error for request in requests if request.error is not None]
    if failed:
        raise RuntimeError(failed[0])
    return [request.result for request in requests]


def measure(model: Synthesizer, device: Device, spoken: Sequence[Utterance], runs: int) -> dict[str, Any]:
    """Return the figures of a synthesis, with median seconds over `runs` runs after a warm-up."""
    core = make_core(model, device)
    speak(core, spoken, 0)
    seconds, speech = [], []
    for run in range(1, runs + 1):
        num_steps = core.telemetry.num_steps
        begun = time.perf_counter()
        speech = speak(core, spoken, run)
        seconds.append(time.perf_counter() - begun)
    steps = [step for step in core.telemetry.steps if step.index >= num_steps]
    stage_ms: dict[str, float] = {}
    for step in steps:
        kind = model.stages[step.stage].partition(".")[0]
        stage_ms[kind] = stage_ms.get(kind, 0.0) + 1e3 * step.parts.get("run", 0.0)
    sound = sum(len(one.samples) for one in speech) / model.sample_rate
    median = statistics.median(seconds)
    core.remove_model("voice")
    return {
        "device": device.limits.hardware, "voices": len(spoken), "phonemes": len(spoken[0].ids), "sound_seconds": sound,
        "seconds": median, "real_time_factor": median / sound, "times_real_time": sound / median,
        "steps": len(steps), "stage_ms": {kind: round(value, 3) for kind, value in stage_ms.items()},
    }  # fmt: skip


def distance(got: Tensor, expected: Tensor) -> float:
    """Return ‖got − expected‖ / ‖expected‖."""
    got, expected = got.cpu().double(), expected.cpu().double()
    return float((got - expected).norm() / expected.norm())


def compare(shape: str, model: Synthesizer, spoken: Utterance) -> dict[str, Any]:
    """Compare an utterance with the same model's in fp32 on the CPU."""
    exact = random_voice(VOICE_SHAPES[shape], WeightOptions(precision="fp32"))
    given = exact.stages.index(GIVEN_STAGE[shape])
    states = {which: [SpeechState((spoken,))] for which in (exact, model)}
    with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        for which in states:
            for stage in range(given):
                states[which] = which.advance(stage, states[which])
        [theirs], [own] = states[exact], states[model]
        same = own.frames_of_ids() == theirs.frames_of_ids()
        found = {"same_durations": same}
        if not same:
            return found
        found |= {"pitch_error": distance(own.tensors["pitch"], theirs.tensors["pitch"])}
        pitch = upload(theirs.tensors["pitch"], model.device)
        states = {exact: [theirs], model: [own.with_(pitch=pitch)]}
        for which in states:
            for stage in range(given, len(which.stages)):
                states[which] = which.advance(stage, states[which])
    ends = [states[which][0].tensors["samples"] for which in (model, exact)]
    return found | {"samples_error": distance(*ends)}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shape", choices=tuple(VOICE_SHAPES), default="kokoro-82m")
    parser.add_argument("--precision", choices=PRECISIONS, default="fast")
    parser.add_argument("--voices", type=int, default=8)
    parser.add_argument("--phonemes", type=int, default=140, help="phonemes an utterance; 140 are about ten seconds")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-check", action="store_true", help="do not compare with the CPU")
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


def main() -> None:
    options = parse()
    device = Device.parse(options.device)
    model = random_voice(VOICE_SHAPES[options.shape], WeightOptions(precision=options.precision), device=device)
    spoken = [random_utterance(model, options.phonemes, seed) for seed in range(options.voices)]
    found = {"shape": options.shape, "precision": options.precision} | measure(model, device, spoken, options.runs)
    if not options.no_check:
        found |= compare(options.shape, model, spoken[0])
    for name, value in found.items():
        print(f"  {name:20} {f'{value:,.5f}' if isinstance(value, float) else value}")
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
