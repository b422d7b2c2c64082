"""What was heard of a spoken message."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.runtime.calls.speech import SpeechChunk, TimedWord
from antiphon.runtime.voice.answering.listener import Listener
from antiphon.runtime.voice.answering.playback import Playback

RATE = 100


def chunk(start: float, *words: tuple[str, float, float], seconds: float, text: str = "") -> SpeechChunk:
    timed = tuple(TimedWord(*word) for word in words)
    return SpeechChunk(np.zeros(round(seconds * RATE), np.float32), RATE, start, text, timed)


def playback() -> Playback:
    """Two chunks, the second sent when the first has been heard for half a second."""
    played = Playback(Listener())
    played.write('He said: "no, no." And ')
    played.write("then he left.")
    first = chunk(0.0, ("He", 0, 0.2), ("said", 0.2, 0.5), ("no", 0.6, 0.9), ("no", 1.0, 1.4), seconds=1.5)
    second = chunk(1.5, ("And", 1.5, 1.8), ("then", 1.8, 2.0), ("he", 2.0, 2.2), ("left", 2.2, 2.5), seconds=1.0)
    assert played.send(first, 10.0) == 0.0
    assert played.send(second, 10.5) == 1.0
    return played


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, ""),
        (0.05, ""),
        (0.15, "He"),
        (0.7, "He said:"),
        (0.8, 'He said: "no,'),
        (1.5, 'He said: "no, no."'),
        (2.05, 'He said: "no, no." And then'),
        (2.5, 'He said: "no, no." And then he left.'),
    ],
)
def test_words_that_were_mostly_heard(seconds: float, text: str) -> None:
    played = playback()
    played.truncate(seconds)
    assert played.heard_text == text


def test_the_pace_of_a_listener() -> None:
    played = playback()
    assert played.remaining(10.5) == 2.0
    assert played.is_playing(12.4) and not played.is_playing(12.6)
    played.stop(11.0)
    assert played.heard_text == 'He said: "no,'
    assert not played.is_playing(11.0)
    played.stop(12.0)  # it has stopped already
    assert played.heard_text == 'He said: "no,'


def test_a_listener_waits_for_sound_that_comes_late() -> None:
    played = Playback(Listener())
    played.write("one two")
    played.send(chunk(0.0, ("one", 0, 1), seconds=1.0), 0.0)
    played.send(chunk(1.0, ("two", 1, 2), seconds=1.0), 5.0)
    assert played.remaining(5.25) == 0.75
    played.stop(5.25)
    assert played.heard_text == "one"


def test_text_whose_sound_was_not_sent_was_not_heard() -> None:
    played = Playback(Listener())
    played.write("one two three")
    played.send(chunk(0.0, ("one", 0, 1), seconds=1.0), 0.0)
    assert played.heard_text == "one"
    played.complete()
    assert played.heard_text == "one two three"


def test_a_word_that_the_text_does_not_have_is_passed_over() -> None:
    played = Playback(Listener())
    played.write("It costs $5 today")
    words = (("It", 0, 0.2), ("costs", 0.2, 0.5), ("five", 0.5, 1.0), ("today", 1.0, 1.5))
    played.send(chunk(0.0, *words, seconds=2.0), 0.0)
    played.truncate(0.9)
    assert played.heard_text == "It costs"
    played.truncate(1.9)
    assert played.heard_text == "It costs $5 today"


def test_words_are_looked_for_in_their_clause() -> None:
    """One that is written in another form is not found in a later clause."""
    played = Playback(Listener())
    played.write("Take cafe\u0301 au lait. A caf\u00e9 is near.")
    first = (("Take", 0, 0.2), ("caf\u00e9", 0.2, 0.5), ("au", 0.5, 1.0), ("lait", 1.0, 1.5))
    played.send(chunk(0.0, *first, seconds=2.0, text="Take caf\u00e9 au lait."), 0.0)
    played.send(chunk(2.0, ("A", 2.0, 2.2), ("caf\u00e9", 2.2, 2.6), seconds=1.0, text="A caf\u00e9 is near."), 0.0)
    played.truncate(0.9)
    assert played.heard_text == "Take cafe\u0301 au"
    played.truncate(2.5)
    assert played.heard_text == "Take cafe\u0301 au lait. A caf\u00e9"


def test_apostrophes_and_digits_of_any_form() -> None:
    played = Playback(Listener())
    played.write("I don\u2019t see \uff15 of them")
    words = (("I", 0, 0.2), ("don't", 0.2, 0.4), ("see", 0.4, 0.6), ("5", 0.6, 0.8), ("of", 0.8, 1.0))
    played.send(chunk(0.0, *words, seconds=1.0, text="I don't see 5 of them"), 0.0)
    played.truncate(0.35)
    assert played.heard_text == "I don\u2019t"
    played.truncate(0.75)
    assert played.heard_text == "I don\u2019t see \uff15"


def test_a_listener_plays_one_message_after_the_other() -> None:
    listener = Listener()
    first, second = Playback(listener), Playback(listener)
    first.write("one")
    second.write("two")
    assert first.send(chunk(0.0, ("one", 0, 1), seconds=1.0), 10.0) == 0.0
    assert second.send(chunk(0.0, ("two", 0, 1), seconds=1.0), 10.25) == 0.75
    assert (first.remaining(10.5), second.remaining(10.5), listener.remaining(10.5)) == (0.5, 1.0, 1.5)
    second.stop(10.5)
    assert second.heard_text == ""
    listener.stop(10.5)
    assert listener.remaining(10.5) == 0.0
