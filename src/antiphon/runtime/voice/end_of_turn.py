"""`ask`: the end-of-turn model's answer about a pause, as an item of a call's inbox."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.engine.core import describe
from antiphon.engine.request import Priority
from antiphon.errors import AntiphonError, EngineError
from antiphon.models.base.companions import END_OF_TURN
from antiphon.runtime.calls.detectors import Detectors
from antiphon.runtime.voice.turn_detection import Look
from antiphon.runtime.voice.turns import SpeechTurn

#: Samples of a turn's end that the model hears.
LOOK_SAMPLES = 8 * SPEECH_RATE


@dataclass(frozen=True)
class Question:
    """A question about a turn, asked at a position of the stream and a time of the call's clock."""

    look: Look
    turn: SpeechTurn
    position: int
    asked: float


@dataclass(frozen=True)
class TurnPrediction:
    """The probability that the turn is complete; meaningless if there is an error."""

    question: Question
    probability: float
    error: AntiphonError | None = None


def ask(detectors: Detectors, question: Question, samples: Floats, put: Callable[[TurnPrediction], None]) -> None:
    """Ask in a new thread, so that meanwhile jobs go on and resumed speech is detected."""

    def run() -> None:
        try:
            probability = float(detectors.run(END_OF_TURN, samples, Priority.CRITICAL))
        except AntiphonError as error:
            put(TurnPrediction(question, 0.0, error))
        except Exception as error:
            put(TurnPrediction(question, 0.0, EngineError(f"the end-of-turn model failed: {describe(error)}")))
        else:
            put(TurnPrediction(question, probability))

    threading.Thread(target=run, name="antiphon-end-of-turn", daemon=True).start()
