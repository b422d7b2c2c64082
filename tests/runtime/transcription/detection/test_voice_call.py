"""Where speech begins and ends: reported by turns, as soon as it is known, and as the segments of a whole recording."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.audio.decode import decode
from antiphon.audio.segments import SegmentOptions, SpeechTracker
from antiphon.models.base.companions import VOICE_ACTIVITY
from antiphon.runtime.calls.tasks import DetectVoice
from antiphon.runtime.calls.voice_events import VoiceEnded, VoiceEvent, VoiceStarted, VoiceStopped
from antiphon.runtime.process.client import EngineClient
from antiphon.runtime.transcription.detection.call import MIN_SPEECH, RELEASE, THRESHOLD, SpeechEdges
from support.sound.speech import JFK_SPEECH, jfk

FRAME = 0.032


def edges_of(probabilities: list[float], step: int, min_silence: float) -> list[VoiceEvent]:
    edges = SpeechEdges(FRAME, min_silence)
    values = np.asarray(probabilities, np.float32)
    events = [event for at in range(0, len(values), step) for event in edges.push(values[at : at + step])]
    return [*events, *edges.finish()]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), st.integers(1, 40)), max_size=12),
    st.integers(1, 64),
    st.sampled_from([0.1, 0.25, 0.5, 1.0]),
)
def test_by_turns_and_equal_to_the_segments(runs: list[tuple[float, int]], step: int, min_silence: float) -> None:
    probabilities = [value for value, count in runs for _ in range(count)]
    events = edges_of(probabilities, step, min_silence)
    kinds = [VoiceStarted, VoiceStopped] * (len(events) // 2)
    assert [type(event) for event in events] == kinds
    times = [event.seconds for event in events]
    assert times == sorted(times)
    tracker = SpeechTracker(FRAME, SegmentOptions(THRESHOLD, RELEASE, MIN_SPEECH, min_silence))
    whole = tracker.push(probabilities)
    pairs = list(zip(times[::2], times[1::2], strict=True))
    assert pairs[: len(whole)] == [(segment.start, segment.end) for segment in whole]
    assert len(pairs) - len(whole) in (0, 1)  # one that the end of the sound ended
    assert all(end - start > MIN_SPEECH for start, end in pairs)


def test_the_start_is_reported_once_there_was_enough_speech() -> None:
    edges = SpeechEdges(FRAME, 0.5)
    speech = np.ones(1, np.float32)
    before = 0
    while not list(edges.push(speech)):
        before += 1
    assert before == int(MIN_SPEECH / FRAME)


@pytest.mark.weights
def test_in_a_real_recording_through_the_engine_process(model_path: Callable[[str], Path]) -> None:
    """In pieces of any size, and cancelled on the way."""
    model_path(VOICE_ACTIVITY)
    sound = np.concatenate([decode(jfk()).values, np.zeros(16_000, np.float32)])

    async def detected(client: EngineClient, step: int) -> list[VoiceEvent]:
        async with client.detect_voice(DetectVoice(f"voice-{step}", 0.5)) as call:
            for start in range(0, len(sound), step):
                call.push(sound[start : start + step])
            call.finish()
            return [event async for event in call]

    async def main() -> tuple[list[VoiceEvent], list[VoiceEvent]]:
        client = EngineClient({"kv_bytes": 16 << 20}, offline=True)
        try:
            await client.start()
            stopped = client.detect_voice(DetectVoice("stopped", 0.5))
            stopped.push(sound)
            stopped.close()
            return await detected(client, 4_000), await detected(client, 100_000)
        finally:
            await client.close()

    first, second = asyncio.run(main())
    assert first == second
    *events, ended = first
    assert ended == VoiceEnded(12.0)
    assert len(events) >= 2 and [type(event) for event in events] == [VoiceStarted, VoiceStopped] * (len(events) // 2)
    assert events[0].seconds == pytest.approx(JFK_SPEECH[0][0], abs=0.2)
    assert events[-1].seconds == pytest.approx(JFK_SPEECH[-1][1], abs=0.35)
