"""Our own voice in a microphone is taken out; a person speaking over it is not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from antiphon.audio.decode import decode
from antiphon.audio.echo import EchoGuard, PlaybackTimeline
from antiphon.audio.echo_path import find_delay
from antiphon.models.registry import build_model
from antiphon.models.silero_vad import SileroVAD, voice_probabilities
from antiphon.weights.formats.open import open_checkpoint
from support.sound.recorded_turns import recorded_turns, room_tone
from support.sound.sounds import Floats, noise, silence
from support.sound.speech import jfk, librivox_clips

RATE = 16_000
ECHO_DB = -15.0
HISS = 3e-4  # of a microphone


def rms(x: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def decibels(x: Floats, reference: Floats) -> float:
    return 20 * float(np.log10((rms(x) + 1e-9) / (rms(reference) + 1e-9)))


def room(seed: int = 1) -> Floats:
    """An impulse response of 120 ms: the direct sound and noise that dies away."""
    tail = 0.25 * noise(0.12, level=1.0, seed=seed) * np.exp(-np.arange(round(0.12 * RATE)) / (0.03 * RATE))
    tail[0] = 1.0
    return (tail / np.sqrt(np.square(tail).sum())).astype(np.float32)


def voice_like(seconds: float, level: float = 0.1, seed: int = 0) -> Floats:
    """Noise with the tilt of speech, four syllables a second."""
    white = noise(seconds, level=1.0, seed=seed)
    tilted = np.convolve(white, 0.7 ** np.arange(24))[: len(white)]
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, 2)
    moments = np.arange(len(white)) / RATE
    swell = np.maximum(0.0, np.sin(8 * np.pi * moments + phases[0])) + 0.2 * np.sin(3 * moments + phases[1]) ** 2
    out = tilted * swell
    return (level / rms(out) * out).astype(np.float32)


def echo_of(
    voice: Floats, delay: float, seconds: float, *, decibels: float = ECHO_DB, path: Floats | None = None
) -> Floats:
    """What a microphone hears of a voice that is played from the start."""
    heard = voice if path is None else np.convolve(voice, path)[: len(voice)]
    start = round(delay * RATE)
    out = silence(seconds)
    span = out[start : start + len(heard)]
    span += heard[: len(span)] * np.float32(10 ** (decibels / 20))
    return out


def pieces(samples: Floats, sizes: Iterator[int]) -> Iterator[Floats]:
    position = 0
    while position < len(samples):
        size = next(sizes)
        yield samples[position : position + size]
        position += size


def cleaned(heard: Floats, *played: tuple[Floats, float], sizes: Iterator[int] | None = None) -> Floats:
    """What a guard makes of the microphone's sound, given voices and when each is played, in seconds."""
    guard = EchoGuard()
    for voice, at in played:
        guard.played(voice, 1000 * at)
    chunks = pieces(heard, sizes or iter(lambda: 320, None))
    parts = [guard.clean(chunk) for chunk in chunks]
    assert all(part.dtype == np.float32 for part in parts)
    out = np.concatenate(parts)
    assert len(out) == len(heard)
    return out


# -- without speech -------------------------------------------------------------------------------------------------


def test_without_playback_nothing_changes() -> None:
    sound = noise(2.0)
    np.testing.assert_array_equal(cleaned(sound), sound)
    # Nor before the first moment of playback, nor a second after its last.
    out = cleaned(sound, (voice_like(0.3), 0.5))
    np.testing.assert_array_equal(out[: round(0.49 * RATE)], sound[: round(0.49 * RATE)])
    np.testing.assert_array_equal(out[round(1.6 * RATE) :], sound[round(1.6 * RATE) :])
    assert not np.array_equal(out, sound)
    assert len(EchoGuard().clean(silence(0))) == 0


@pytest.mark.parametrize("seed", range(3))
def test_cut_anywhere(seed: int) -> None:
    source = np.random.default_rng(seed)
    voice = voice_like(1.5, seed=seed)
    heard = echo_of(voice, 0.1, 2.0, path=room(seed)) + noise(2.0, level=HISS)
    sizes = iter(lambda: int(source.integers(1, (3, 700, 20_000)[seed])), None)
    np.testing.assert_array_equal(cleaned(heard, (voice, 0.1), sizes=sizes), cleaned(heard, (voice, 0.1)))


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.3, 0.59])
def test_an_echo_is_taken_out(delay: float) -> None:
    voice = voice_like(3.0, level=0.3)
    heard = echo_of(voice, delay, 3.0, path=room())
    out = cleaned(heard, (voice, 0.0))
    assert decibels(out, heard) < -20
    late = slice(2 * RATE, None)
    assert decibels(out[late], heard[late]) < -30


def test_another_sound_stays() -> None:
    voice, other = voice_like(4.0, level=0.3), voice_like(2.0, level=0.1, seed=9)
    echo = echo_of(voice, 0.12, 4.0, path=room())
    heard = echo.copy()
    heard[2 * RATE :] += other
    out = cleaned(heard, (voice, 0.0))[2 * RATE :]
    assert np.corrcoef(out, other)[0, 1] > 0.9 and abs(decibels(out, other)) < 2.0


def test_what_was_stopped_is_not_played() -> None:
    sound = noise(3.0)
    guard = EchoGuard()
    guard.played(voice_like(3.0), 0)
    first = guard.clean(sound[:RATE])
    guard.stopped(1000)
    rest = guard.clean(sound[RATE:])
    assert not np.array_equal(first, sound[:RATE])
    np.testing.assert_array_equal(rest[RATE:], sound[2 * RATE :])


def test_a_path_that_changes() -> None:
    """Louder after three seconds, then another delay in the second playback, then headphones in the third."""
    voice = voice_like(6.0, level=0.3)
    first = echo_of(voice, 0.12, 8.0, path=room())
    first[3 * RATE :] *= 2
    second = echo_of(voice, 0.25, 8.0, path=room(2))
    heard = np.concatenate([first, second, silence(8.0)]) + noise(24.0, level=HISS)
    out = cleaned(heard, (voice, 0.0), (voice, 8.0), (voice, 16.0))
    for start, end in ((1, 3), (4, 6), (9.5, 14)):
        span = slice(round(start * RATE), round(end * RATE))
        assert decibels(out[span], heard[span]) < -20, (start, end)
    assert rms(out[17 * RATE :]) < 10 * HISS


def test_the_delay() -> None:
    voice = voice_like(1.2, seed=4)
    played = voice[-8_192 - 9_600 :]
    for delay in (0, 1, 700, 9_600):
        heard = played[9_600 - delay :][:8_192]
        assert find_delay(-0.1 * heard, played) == delay
    assert find_delay(noise(0.5), noise(1.1, seed=1)) is None
    assert find_delay(noise(0.5), silence(1.1)) is None


def test_a_timeline_forgets_and_grows() -> None:
    source, timeline = np.random.default_rng(2), PlaybackTimeline()
    expected = silence(60.0)
    for now in range(0, 50 * RATE, 4_000):
        at = now + int(source.integers(-2_000, 40_000))
        piece = noise(0.1, seed=now)
        timeline.put(piece, at)
        expected[max(0, at) : at + len(piece)] = piece[max(0, -at) :]
        if now % 7 == 0:
            cut = now + int(source.integers(30_000))
            timeline.cut(cut)
            expected[cut:] = 0.0
        timeline.forget(now - 20_000)
        window = slice(max(0, now - 20_000), now + 50_000)
        np.testing.assert_array_equal(timeline.between(window.start, window.stop), expected[window])


# -- speech ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def detector() -> SileroVAD:
    from antiphon.weights.catalog.resolve import resolve

    model = build_model(open_checkpoint(resolve("silero-vad").path))
    assert isinstance(model, SileroVAD)
    return model


def voiced(detector: SileroVAD, samples: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Frames of 32 ms that are speech."""
    found = voice_probabilities(detector, [samples.astype(np.float32)], [detector.initial_state()], final=True)[0]
    return np.asarray(found >= 0.5)


def longest_speech(detector: SileroVAD, samples: Floats) -> float:
    """Seconds."""
    best = run = 0
    for is_voiced in voiced(detector, samples):
        run = run + 1 if is_voiced else 0
        best = max(best, run)
    return 0.032 * best


@cache
def our_voice(index: int = 0) -> Floats:
    """A sentence without the silence before it, so that its echo begins at full level."""
    path = librivox_clips()[index][0]
    start = float(path.with_suffix(".lab").read_text().split()[0])
    return decode(path, rate=RATE).values[round(start * RATE) :]


@cache
def person() -> Floats:
    return decode(jfk(), rate=RATE).values[: round(2.4 * RATE)]


@pytest.mark.weights
@pytest.mark.parametrize("path", [None, room()], ids=["dry", "room"])
@pytest.mark.parametrize("delay", [0.05, 0.15, 0.3])
def test_our_own_voice_is_no_speech(delay: float, path: Floats | None, detector: SileroVAD) -> None:
    for index, level in ((0, 0.0), (3, HISS), (1, 2e-3)):
        voice = our_voice(index)
        seconds = len(voice) / RATE + 0.5
        heard = echo_of(voice, delay, seconds, path=path) + noise(seconds, level=level)
        assert longest_speech(detector, heard) > 1.0
        assert longest_speech(detector, cleaned(heard, (voice, 0.0))) < 0.2


@pytest.mark.weights
def test_answers_one_after_the_other(detector: SileroVAD) -> None:
    """The second one comes back later than the first, as players do."""
    seconds = [len(our_voice(index)) / RATE + 1.0 for index in (0, 3)]
    heard = np.concatenate(
        [echo_of(our_voice(0), 0.12, seconds[0]), echo_of(our_voice(3), 0.2, seconds[1], path=room())]
    )
    heard += noise(len(heard) / RATE, level=HISS)[: len(heard)]
    out = cleaned(heard, (our_voice(0), 0.0), (our_voice(3), seconds[0]))
    assert longest_speech(detector, heard) > 1.0 and longest_speech(detector, out) < 0.2


@pytest.mark.weights
@pytest.mark.parametrize("path", [None, room()], ids=["dry", "room"])
@pytest.mark.parametrize("louder", [0.0, 6.0, 15.0])
def test_a_person_speaking_over_it_is_heard(louder: float, path: Floats | None, detector: SileroVAD) -> None:
    voice, seconds = our_voice(0), len(our_voice(0)) / RATE + 0.5
    echo = echo_of(voice, 0.15, seconds, path=path)
    alone = silence(seconds)
    alone[2 * RATE : 2 * RATE + len(person())] = person() * (rms(echo) / rms(person()) * 10 ** (louder / 20))
    hiss = noise(seconds, level=HISS)[: len(alone)]
    out = cleaned(echo + alone + hiss, (voice, 0.0))
    expected, found = voiced(detector, alone + hiss), voiced(detector, out)
    assert expected.sum() > 20 and found[expected].mean() > 0.7 and found[~expected].mean() < 0.1
    assert longest_speech(detector, out) > 0.25
    assert abs(int(np.argmax(found)) - int(np.argmax(expected))) <= 3  # begins within 100 ms
    speaking = slice(2 * RATE, 2 * RATE + len(person()))
    assert np.corrcoef(out[speaking], alone[speaking])[0, 1] > 0.97


@pytest.mark.weights
def test_a_person_is_heard_where_nothing_comes_back(detector: SileroVAD) -> None:
    """Headphones: after the first second and a half of the first answer there is no echo to expect."""
    voice = np.concatenate([our_voice(0), our_voice(3)])
    alone = silence(len(voice) / RATE)[: len(voice)]
    for start in (3, 7):
        alone[start * RATE : start * RATE + len(person())] += 0.1 * person()
    heard = alone + noise(len(voice) / RATE, level=HISS)[: len(voice)]
    out = cleaned(heard, (voice, 0.0))
    expected = voiced(detector, heard)
    assert (voiced(detector, out) == expected).mean() > 0.97 and np.corrcoef(out, alone)[0, 1] > 0.99


@pytest.mark.weights
def test_quiet_speech_is_heard_soon_where_nothing_comes_back(detector: SileroVAD) -> None:
    """Sentences on the telephone, much less loud than the first answer, which began a second before."""
    voice = 2.0 * our_voice(0)
    late = []
    for clip in (clip for clip in recorded_turns() if clip.name.startswith("call-")):
        heard = room_tone(4 * RATE, clip, seed=1)
        heard[2 * RATE : 2 * RATE + len(clip.sound)] += clip.sound[: 2 * RATE]
        expected, found = voiced(detector, heard), voiced(detector, cleaned(heard, (voice, 1.0)))
        late.append(int(np.argmax(found)) - int(np.argmax(expected)))
    assert all(abs(frames) <= 3 for frames in late), late  # begins within 100 ms
