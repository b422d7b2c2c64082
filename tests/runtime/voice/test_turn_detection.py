"""When turns begin, pause, go on and end, in sound time: settings one by one, then random streams."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.turn_settings import Eagerness, TurnDetection, TurnSettings
from antiphon.runtime.voice.turn_detection import (
    COMPLETE,
    PAUSE,
    SAMPLES_PER_MS,
    Began,
    Completed,
    Decision,
    Dropped,
    Idle,
    Look,
    Paused,
    Resumed,
    TurnDetector,
)

FRAME = 512
SPEECH, SILENCE = 0.9, 0.05


def ms(milliseconds: float) -> int:
    return round(milliseconds * SAMPLES_PER_MS)


def frames(milliseconds: float) -> int:
    return round(ms(milliseconds) / FRAME)


class Heard:
    """A detector with all its decisions and where they were made."""

    def __init__(self, settings: TurnSettings, answers: Iterable[float] = ()) -> None:
        self.detector = TurnDetector(settings, FRAME)
        self.decisions: list[tuple[int, Decision]] = []
        self._answers = iter(answers)

    def hear(self, probability: float, milliseconds: float) -> list[Decision]:
        """So long of this probability. Looks are answered at once by the next of the answers, if any."""
        new: list[Decision] = []
        for _ in range(frames(milliseconds)):
            new += self.take(self.detector.push(probability))
        return new

    def take(self, decisions: list[Decision]) -> list[Decision]:
        self.decisions += [(self.detector.position, decision) for decision in decisions]
        new = list(decisions)
        for look in [decision for decision in decisions if isinstance(decision, Look)]:
            answer = next(self._answers, None)
            if answer is not None:
                new += self.take(self.detector.answer(look, answer))
        return new


def test_a_turn_of_fixed_silence() -> None:
    heard = Heard(TurnSettings(silence_ms=500, prefix_ms=300))
    assert heard.hear(SILENCE, 960) == []
    assert heard.hear(SPEECH, 640) == [Began(ms(660))]
    assert heard.hear(SILENCE, 64) == []
    assert heard.hear(SILENCE, 32) == [Paused(ms(1600))]
    assert heard.hear(SILENCE, 384) == []
    assert heard.hear(SILENCE, 32) == [Completed(ms(1600))]  # 512 ms after the speech
    # The next turn's prefix does not reach into the sound of the last one.
    assert heard.hear(SPEECH, 32) == [Began(ms(1600 + 512 - 300))]
    assert TurnDetector(TurnSettings(prefix_ms=300), FRAME).push(SPEECH) == [Began(0)]


def test_a_guess_is_void_when_speech_goes_on() -> None:
    heard = Heard(TurnSettings(silence_ms=500))
    heard.hear(SPEECH, 640)
    assert heard.hear(SILENCE, 320) == [Paused(ms(640))]
    assert heard.hear(SPEECH, 320) == [Resumed()]
    assert heard.hear(SILENCE, 640) == [Paused(ms(1280)), Completed(ms(1280))]


def test_speech_begins_at_the_threshold_and_ends_under_the_release() -> None:
    heard = Heard(TurnSettings(threshold=0.6, silence_ms=100))
    assert heard.hear(0.59, 320) == []
    assert heard.hear(0.61, 320) == [Began(ms(20))]
    assert heard.hear(0.5, 960) == []  # a little under the threshold speech goes on
    assert heard.hear(0.4, 320) == [Paused(ms(1600)), Completed(ms(1600))]


def test_a_minimum_of_speech_opens_a_turn_late_but_from_its_beginning() -> None:
    heard = Heard(TurnSettings(prefix_ms=0, silence_ms=300))
    heard.detector.set_min_speech(ms(200))
    heard.hear(SILENCE, 320)
    assert heard.hear(SPEECH, 192) == []
    assert heard.hear(SILENCE, 320) == []  # forgotten
    assert heard.hear(SPEECH, 192) == []
    assert heard.hear(SPEECH, 32) == [Began(ms(832))]  # at 224 ms of it
    heard.detector.set_min_speech(0)
    heard.hear(SILENCE, 640)
    assert heard.hear(SPEECH, 32) == [Began(ms(1696))]


def test_a_click_is_no_turn() -> None:
    heard = Heard(TurnSettings())
    assert heard.hear(SPEECH, 64) == [Began(0)]
    assert heard.hear(SILENCE, 960) == [Dropped()]


def test_the_model_ends_a_turn_that_sounds_complete() -> None:
    heard = Heard(TurnSettings(TurnDetection.SEMANTIC_VAD), answers=[0.2, 0.7])
    heard.hear(SPEECH, 960)
    decisions = heard.hear(SILENCE, 1600)
    assert decisions == [Paused(ms(960)), Look(1, ms(960)), Look(2, ms(960)), Completed(ms(960))]
    assert [where - ms(960) for where, _ in heard.decisions[1:]] == [ms(96), ms(192), ms(512), ms(512)]


@pytest.mark.parametrize(
    ("eagerness", "wait"), [("low", 8000), ("medium", 4000), ("high", 2000), ("auto", 4000)]
)  # fmt: skip
def test_eagerness_is_the_longest_wait(eagerness: str, wait: int) -> None:
    heard = Heard(TurnSettings(TurnDetection.SEMANTIC_VAD, eagerness=Eagerness(eagerness)), answers=[0.1] * 9)
    heard.hear(SPEECH, 960)
    heard.hear(SILENCE, 10_000)
    where, last = heard.decisions[-1]
    assert last == Completed(ms(960)) and 0 <= where - ms(960) - ms(wait) < FRAME


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    heard = Heard(TurnSettings(TurnDetection.SEMANTIC_VAD))
    heard.hear(SPEECH, 960)
    look = heard.hear(SILENCE, 320)[-1]
    assert isinstance(look, Look)
    assert heard.hear(SILENCE, 640) == []  # while it is unanswered the model is not asked again
    heard.hear(SPEECH, 320)
    assert heard.detector.answer(look, 0.99) == []
    second = heard.hear(SILENCE, 320)[-1]
    assert isinstance(second, Look)
    assert heard.detector.answer(look, 0.99) == [] and heard.detector.answer(second, 0.99) == [Completed(ms(2240))]
    assert heard.detector.answer(second, 0.99) == []


def test_manual_detection_decides_nothing_but_hears() -> None:
    heard = Heard(TurnSettings(TurnDetection.MANUAL, idle_timeout_ms=100))
    assert heard.hear(SPEECH, 960) == [] and heard.detector.is_voiced
    assert heard.hear(SILENCE, 9600) == [] and not heard.detector.is_voiced
    heard.detector.configure(TurnSettings())
    assert len(heard.hear(SPEECH, 320)) == 1


def test_idle_once_after_a_rest() -> None:
    heard = Heard(TurnSettings(idle_timeout_ms=1000))
    assert heard.hear(SILENCE, 5120) == []  # nothing has been answered yet
    heard.detector.rest(ms(5120 + 2000))  # an answer is heard for two seconds more
    assert heard.hear(SILENCE, 2976) == []
    assert heard.hear(SILENCE, 5120) == [Idle(ms(7120), ms(8128))]
    heard.detector.rest(heard.detector.position)
    heard.hear(SPEECH, 320)
    assert not [each for each in heard.hear(SILENCE, 9600) if isinstance(each, Idle)]


@pytest.mark.parametrize("field", ["threshold", "prefix_ms", "silence_ms", "idle_timeout_ms"])
def test_settings_out_of_range_are_rejected_with_the_value(field: str) -> None:
    with pytest.raises(InvalidRequestError, match=rf"{field} is -1; it must be"):
        TurnSettings(**{field: -1})


def random_settings(source: random.Random) -> TurnSettings:
    return TurnSettings(
        source.choice([TurnDetection.SERVER_VAD, TurnDetection.SEMANTIC_VAD]),
        threshold=source.uniform(0.2, 0.9),
        prefix_ms=source.choice([0, 100, 300, 1000]),
        silence_ms=source.choice([100, 200, 500, 1500]),
        eagerness=source.choice(list(Eagerness)),
        idle_timeout_ms=source.choice([None, 400, 3000]),
    )


def check_order(turns: list[tuple[int, Decision]], floor: int, is_restarted: bool) -> None:
    """The decisions of one turn: its order, and positions that never go back."""
    kinds = [type(decision) for _, decision in turns]
    assert kinds[0] is Began and Began not in kinds[1:]
    _, began = turns[0]
    assert isinstance(began, Began) and floor <= began.start < turns[0][0]
    last = kinds[-1]
    assert is_restarted or last in (Completed, Dropped)
    assert not {Completed, Dropped} & set(kinds[:-1])
    is_paused = False
    for where, decision in turns:
        match decision:
            case Paused():
                assert not is_paused and where - decision.end >= PAUSE
                is_paused = True
            case Resumed():
                assert is_paused
                is_paused = False
            case Look():
                assert is_paused and where - decision.end >= ms(192)
            case Completed():
                assert is_paused and began.start < decision.end <= where
            case Dropped():
                assert Paused not in kinds


@pytest.mark.parametrize("seed", range(60))
def test_random_streams_give_turns_in_order(seed: int) -> None:
    """Speech, silence, noise, late answers, commits, other settings: every turn is well formed and every one ends."""
    source = random.Random(seed)
    detector = TurnDetector(random_settings(source), FRAME)
    open_turn: list[tuple[int, Decision]] = []
    looks: list[tuple[int, Look]] = []
    floor, num_ended, level = 0, 0, 0.1

    def note(decisions: list[Decision]) -> None:
        nonlocal floor, num_ended, open_turn
        for decision in decisions:
            if isinstance(decision, Idle):
                assert decision.end > decision.start
                continue
            if isinstance(decision, Look):
                looks.append((detector.position + source.randrange(0, ms(700)), decision))
            open_turn.append((detector.position, decision))
            if isinstance(decision, Completed | Dropped):
                check_order(open_turn, floor, False)
                floor = max(floor, decision.end + PAUSE if isinstance(decision, Completed) else 0)
                open_turn, num_ended = [], num_ended + 1

    for _ in range(3000):
        if source.random() < 0.04:
            level = source.choice([0.02, 0.1, 0.5, 0.7, 0.97])
        note(detector.push(min(1.0, max(0.0, source.gauss(level, 0.12)))))
        for due, look in [pair for pair in looks if pair[0] <= detector.position]:
            looks.remove((due, look))
            probability = source.random()
            decided = detector.answer(look, probability)
            assert not decided or (probability >= COMPLETE and decided == [Completed(look.end)])
            note(decided)
        if source.random() < 0.002:
            detector.configure(random_settings(source))
        if source.random() < 0.002:
            detector.set_min_speech(source.choice([0, ms(200), ms(600)]))
        if source.random() < 0.002:
            detector.rest(detector.position)
        if source.random() < 0.002:
            floor = detector.position
            detector.restart(floor)
            if open_turn:
                check_order(open_turn, 0, True)
            open_turn = []
    for _ in range(300):  # silence ends whatever is open
        note(detector.push(0.0))
    assert not open_turn and num_ended > 3
