"""Detectors on their lane: loaded once, batched across calls, and no failure reaches another request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon import Engine
from antiphon.engine.request import Priority
from antiphon.errors import EngineError, FetchError, InvalidRequestError, UnsupportedError
from antiphon.models.base.companions import LETTER_TO_SOUND, VOICE_ACTIVITY
from antiphon.models.base.parts import Detector
from antiphon.models.registry import model_class
from antiphon.models.silero_vad import Floats, SileroVAD, VoiceInput, voice_probabilities
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.frontend import front_end
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.memory_budget import listed_weight_bytes
from antiphon.runtime.transcription.detection.voice_activity import VoiceReader
from antiphon.runtime.transcription.listening.call import LiveCall
from antiphon.weights.catalog.catalog import catalog
from support.models.random_detector import random_detector
from support.models.tiny_whisper import tiny_whisper
from support.waiting import wait_until


class Gate:
    """Stands before the detector's function: counts the inputs of every step, and holds a step back on request."""

    def __init__(self, engine: Engine, name: str = VOICE_ACTIVITY) -> None:
        executor = engine.detectors.core.slots[name].executor
        part: Detector = executor._detector  # type: ignore[attr-defined]
        self.batches: list[int] = []
        self.is_open = threading.Event()
        self.is_open.set()
        self.failure: Exception | None = None
        executor._detector = Detector(part.owner, part.step_size, part.size, self._run)  # type: ignore[attr-defined]
        self._inner = part.run

    def _run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        self.batches.append(len(inputs))
        assert self.is_open.wait(120)
        if self.failure is not None:
            raise self.failure
        return self._inner(inputs)


def noise(seconds: float, seed: int = 0) -> Floats:
    return (np.random.default_rng(seed).standard_normal(round(seconds * 16_000)) * 0.1).astype(np.float32)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """References that the engine loads, each as a random detector."""
    asked: list[str] = []

    def load(reference: str, **options: Any) -> LoadedModel:
        asked.append(reference)
        return random_detector(reference)

    monkeypatch.setattr(front_end, "load_model", load)
    return asked


@pytest.fixture
def engine(loads: list[str]) -> Iterator[Engine]:
    with Engine(kv_bytes=1 << 20) as engine:
        yield engine


def direct(samples: Floats) -> Floats:
    model = random_detector().model
    assert isinstance(model, SileroVAD)
    state = model.initial_state()
    return voice_probabilities(model, [samples], [state], final=True)[0]


def wait_until_calls(engine: Engine, count: int) -> None:
    """Wait until `count` calls wait for the lane's running step to end."""
    loop = engine.detectors._loop
    assert loop is not None
    wait_until(lambda: len(loop._calls) == count, f"{count} calls behind the step", seen=lambda: loop._calls)


def wait_until_step(gate: Gate) -> None:
    """Wait until the first step runs, with one request."""
    wait_until(lambda: gate.batches == [1], "a step with one request to run", seen=lambda: gate.batches)


def has_lane_thread() -> bool:
    return any(thread.name == "antiphon-detectors" for thread in threading.enumerate())


def test_nothing_is_loaded_or_started_before_the_first_use(engine: Engine, loads: list[str]) -> None:
    assert not loads and not has_lane_thread() and VOICE_ACTIVITY not in engine.figures()
    VoiceReader(engine.detectors)
    assert loads == [VOICE_ACTIVITY] and has_lane_thread()
    assert engine.models == [] and engine.figures()[VOICE_ACTIVITY]["running"] == 0
    engine.close()
    assert not has_lane_thread()
    with pytest.raises(EngineError, match="closed"):
        VoiceReader(engine.detectors)


@pytest.mark.parametrize("cut", [160, 1600, 16_000, 90 * 16_000])
def test_probabilities_are_those_of_the_model(engine: Engine, cut: int) -> None:
    """Also of sound that is longer than a step, which becomes several requests."""
    samples = noise(80.3 if cut > 1600 else 2.3)
    reader = VoiceReader(engine.detectors)
    starts = range(0, len(samples), cut)
    found = [reader.push(samples[at : at + cut], final=at + cut >= len(samples)) for at in starts]
    np.testing.assert_array_equal(np.concatenate(found), direct(samples))


def test_streams_of_different_lengths_in_one_step_equal_each_alone(engine: Engine) -> None:
    """One ends in this step, the others do not; one has no complete chunk."""
    lengths, ends = (3.0, 0.01, 11.7, 0.3, 3.2), (False, False, True, False, True)
    model = engine.detectors.model(VOICE_ACTIVITY)
    part = model.part(Detector)
    assert isinstance(model, SileroVAD) and part is not None
    sounds = [noise(seconds, seed) for seed, seconds in enumerate(lengths)]
    together = part.run(
        [VoiceInput(sound, model.initial_state(), end) for sound, end in zip(sounds, ends, strict=True)]
    )
    for sound, end, found in zip(sounds, ends, together, strict=True):
        alone = voice_probabilities(model, [sound], [model.initial_state()], final=end)[0]
        np.testing.assert_array_equal(found, alone)
    assert [len(found) for found in together] == [93, 0, 366, 9, 100]


def test_two_live_sessions_share_a_step() -> None:
    with Engine(tiny_whisper(), random_detector(), kv_bytes=32 << 20) as engine:
        gate = Gate(engine)
        reader = VoiceReader(engine.detectors)
        gate.is_open.clear()
        first = in_thread(lambda: reader.push(noise(1)))
        wait_until_step(gate)
        sessions = [engine.listen(temperatures=(0.0,)) for _ in range(2)]
        for session in sessions:
            session.push(noise(0.5))
        wait_until_calls(engine, 2)
        gate.is_open.set()
        assert len(first.result(120)) == 31
        wait_until(lambda: len(gate.batches) == 2, "a second step", seen=lambda: gate.batches)
        assert gate.batches == [1, 2]
        for session in sessions:
            session.close()


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def test_live_sound_goes_before_recordings(engine: Engine) -> None:
    reader = VoiceReader(engine.detectors)
    gate = Gate(engine)
    gate.is_open.clear()
    work = [in_thread(lambda: reader.push(noise(1)))]
    wait_until_step(gate)

    for number, (seconds, priority) in enumerate([(30, Priority.NORMAL), (30, Priority.NORMAL), (0.1, Priority.HIGH)]):
        own = VoiceReader(engine.detectors, priority)
        work.append(in_thread(partial(own.push, noise(seconds, number))))
        wait_until_calls(engine, number + 1)
    gate.is_open.set()
    for done in work:
        done.result(120)
    assert gate.batches == [1, 2, 1]  # the live sound with one recording, then the other


def test_two_threads_load_a_detector_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    may_load = threading.Event()

    def load(reference: str, **options: Any) -> LoadedModel:
        asked.append(reference)
        assert may_load.wait(120)
        return random_detector(reference)

    monkeypatch.setattr(front_end, "load_model", load)
    both = [in_thread(lambda: engine.detectors.model(VOICE_ACTIVITY)) for _ in range(2)]
    wait_until(lambda: asked, "a thread to load the detector")
    may_load.set()
    first, second = (one.result(120) for one in both)
    assert first is second and asked == [VOICE_ACTIVITY]


def test_a_load_that_fails_is_tried_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(reference: str, **options: Any) -> LoadedModel:
        raise FetchError(f"{reference} is not here and the network is not to be used")

    with monkeypatch.context() as patch:
        patch.setattr(front_end, "load_model", missing)
        for _ in range(2):
            with pytest.raises(FetchError, match="silero-vad is not here"):
                VoiceReader(engine.detectors)
    assert VOICE_ACTIVITY not in engine.detectors
    VoiceReader(engine.detectors)


def test_unloading_frees_it_and_the_next_use_loads_it_again(engine: Engine, loads: list[str]) -> None:
    reader, samples = VoiceReader(engine.detectors), noise(4)
    found = [reader.push(samples[:20_000])]
    engine.unload(VOICE_ACTIVITY)
    assert VOICE_ACTIVITY not in engine.figures() and VOICE_ACTIVITY not in engine.detectors
    found.append(reader.push(samples[20_000:], final=True))
    np.testing.assert_array_equal(np.concatenate(found), direct(samples))
    assert loads == [VOICE_ACTIVITY] * 2


def test_unloading_cancels_what_waits(engine: Engine) -> None:
    reader = VoiceReader(engine.detectors)
    gate = Gate(engine)
    gate.is_open.clear()
    running = in_thread(lambda: reader.push(noise(1)))
    wait_until_step(gate)
    other = in_thread(lambda: VoiceReader(engine.detectors).push(noise(1)))
    wait_until_calls(engine, 1)
    unloading = in_thread(lambda: engine.unload(VOICE_ACTIVITY))
    wait_until_calls(engine, 2)
    gate.is_open.set()
    unloading.result(120)
    assert len(running.result(120)) == 31
    with pytest.raises(EngineError, match="silero-vad ended by cancelled"):
        other.result(120)


def test_a_step_that_fails_fails_its_requests_only(engine: Engine) -> None:
    reader = VoiceReader(engine.detectors)
    gate = Gate(engine)
    gate.failure = ValueError("no good")
    with pytest.raises(EngineError, match="silero-vad ended by failed: ValueError: no good"):
        reader.push(noise(1))
    gate.failure = None
    samples = noise(2)
    np.testing.assert_array_equal(VoiceReader(engine.detectors).push(samples, final=True), direct(samples))


def test_a_loaded_detector_serves_no_request(loads: list[str]) -> None:
    with Engine(random_detector(), tiny_whisper(), kv_bytes=8 << 20) as engine:
        assert engine.models == [VOICE_ACTIVITY, "tiny-whisper"]
        with pytest.raises(UnsupportedError, match="silero-vad is a voice activity detector"):
            engine.generate("a", model=VOICE_ACTIVITY)
        with pytest.raises(InvalidRequestError, match="resident already"):
            engine.load(random_detector())
        VoiceReader(engine.detectors).push(noise(1))
        assert not loads


def test_one_that_a_call_has_loaded_is_taken_over(engine: Engine, loads: list[str]) -> None:
    model = engine.detectors.model(VOICE_ACTIVITY)
    assert engine.load(VOICE_ACTIVITY).model is model and engine.models == [VOICE_ACTIVITY]
    assert loads == [VOICE_ACTIVITY]


def test_detection_does_not_wait_for_other_models() -> None:
    with Engine(tiny_whisper(), random_detector(), kv_bytes=8 << 20) as engine:
        is_free = threading.Event()
        blocking = engine._loop.call(lambda: is_free.wait(120))
        assert len(VoiceReader(engine.detectors).push(noise(1))) == 31
        is_free.set()
        assert blocking.result(120)


def test_the_error_of_a_live_session_names_the_detector(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a session needs is loaded when it is prepared."""

    def missing(reference: str, **options: Any) -> LoadedModel:
        raise FetchError(f"{reference} is not here")

    with Engine(tiny_whisper(), kv_bytes=8 << 20) as listening:
        monkeypatch.setattr(front_end, "load_model", missing)
        with pytest.raises(FetchError, match="silero-vad is not here"):
            LiveCall("a", listening._sink).prepare(listening.transcriber(None), TranscriptionOptions())


def test_models_declare_their_companions() -> None:
    assert tiny_whisper().model.companions == (VOICE_ACTIVITY,)
    for architecture in ("kokoro", "hibari"):
        assert model_class(architecture).companions == tuple(LETTER_TO_SOUND.values())
    for reference in (VOICE_ACTIVITY, *LETTER_TO_SOUND.values()):
        name, _, file = reference.partition(":")
        listed = [item for item in catalog()[name].files if file in ("", item.name)]
        assert listed_weight_bytes(reference) == listed[0].size


@pytest.mark.weights
@pytest.mark.parametrize("reference", [VOICE_ACTIVITY, *LETTER_TO_SOUND.values()])
def test_detectors_of_the_catalog(reference: str, model_path: Callable[[str], Path]) -> None:
    """Quantising applies to the models that are asked for, not to detectors."""
    model_path(reference.partition(":")[0])
    with Engine(kv_bytes=1 << 20, quantize="int8", offline=True) as engine:
        model = engine.detectors.model(reference)
        assert all(not weight.packed for weight in model.weights()) and model.weight_bytes() > 900_000
        if reference != VOICE_ACTIVITY:
            assert engine.detectors.run(reference, "blorp") == model.pronounce("blorp")  # type: ignore[attr-defined]
