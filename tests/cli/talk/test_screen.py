"""What a conversation looks like, as lines and on a terminal."""

from __future__ import annotations

import io

import pyte
import pytest

from antiphon.cli.talk.screen import Screen, time_lines
from antiphon.runtime.voice.events import (
    EndReason,
    PartPlace,
    ResponseDone,
    ResponseState,
    ResponseStatus,
    SessionError,
    SessionEvent,
    SpokenTextDelta,
    TranscriptDelta,
    TranscriptDone,
    UserSpeechStarted,
    UserSpeechStopped,
)
from antiphon.runtime.voice.items import Message, Role, SoundPart
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.runtime.voice.waterfall import Waterfall

WATERFALL = Waterfall(10.0, 10.2, 10.1, 10.6, None, 10.6, 10.7, 10.8, 10.84, 10.7, 10.84)
PLACE = PartPlace("resp_1", "item_2", 0)
HEARD: list[SessionEvent] = [UserSpeechStarted("item_1", 0), TranscriptDelta("item_1", 0, "what is")]
ASKED: list[SessionEvent] = [UserSpeechStopped("item_1", 900), TranscriptDone("item_1", 0, " What is it?", 0.9)]
ANSWERED: list[SessionEvent] = [SpokenTextDelta(PLACE, " It is "), SpokenTextDelta(PLACE, "so.")]


def done(status: ResponseStatus = ResponseStatus.COMPLETED, **fields: object) -> ResponseDone:
    state = ResponseState("resp_1", VoiceSettings(), status=status, waterfall=WATERFALL, **fields)  # type: ignore[arg-type]
    return ResponseDone(state)


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(events: list[SessionEvent], **options: bool) -> list[str]:
    stream = io.StringIO()
    screen = Screen(stream=stream, **options)
    for event in events:
        screen.show(event)
    screen.close()
    return stream.getvalue().splitlines()


def display(events: list[SessionEvent]) -> list[str]:
    """What is on a terminal of 80 columns."""
    stream, seen = FakeTerminal(), pyte.Screen(80, 10)
    screen = Screen(stream=stream)
    for event in events:
        screen.show(event)
    pyte.Stream(seen).feed(stream.getvalue().replace("\n", "\r\n"))
    return [line.rstrip() for line in seen.display if line.strip()]


def test_plain_lines() -> None:
    assert lines([*HEARD, *ASKED, *ANSWERED, done()]) == [
        "You: What is it?",
        "Antiphon: It is so.",
        "  first sound 0.84 s after the end of speech",
    ]


def test_a_terminal_shows_what_is_heard_while_it_is_said() -> None:
    assert display(HEARD[:1]) == ["You: …"]
    assert display(HEARD) == ["You: what is …"]
    assert display([*HEARD, *ASKED]) == ["You: What is it?"]
    assert display([*HEARD, *ASKED, *ANSWERED[:1]])[-1] == "Antiphon: It is"
    assert display([*HEARD, *ASKED, *ANSWERED, done()])[1:] == [
        "Antiphon: It is so.",
        "  first sound 0.84 s after the end of speech",
    ]
    long = TranscriptDelta("item_1", 0, " and so on" * 20)
    shown = display([*HEARD, long])
    assert len(shown) == 1 and shown[0].endswith("so on …")
    assert display([*HEARD, long, *ASKED]) == ["You: What is it?"]


def test_interruptions() -> None:
    heard = Message("item_2", Role.ASSISTANT, (SoundPart("It is"),))
    cut = done(ResponseStatus.CANCELLED, reason=EndReason.TURN_DETECTED, output=(heard,))
    assert lines([*ASKED, *ANSWERED, cut])[1] == "Antiphon: It is [interrupted]"
    assert display([*ASKED, *ANSWERED, cut])[1] == "Antiphon: It is so. [interrupted]"
    stream = io.StringIO()
    screen = Screen(stream=stream)
    for event in [*ASKED, *ANSWERED, done()]:
        screen.show(event)
    screen.interrupted()  # all of it has been made, and a part of it has been heard
    assert stream.getvalue().endswith("[interrupted]\n")


def test_what_was_no_speech_leaves_no_line() -> None:
    assert lines([*HEARD, TranscriptDone("item_1", 0, " ", 0.1)]) == []
    assert display([*HEARD, TranscriptDone("item_1", 0, " ", 0.1)]) == []


def test_errors(capsys: pytest.CaptureFixture[str]) -> None:
    failed = done(ResponseStatus.FAILED, error=("engine_error", "a step failed"))
    assert lines([*ASKED, SessionError("x", "not so"), failed]) == ["You: What is it?"]
    assert capsys.readouterr().err.splitlines() == ["antiphon: not so", "antiphon: there is no answer: a step failed"]


def test_the_waterfall() -> None:
    first, *stages = time_lines(WATERFALL, True)
    assert first == "first sound 0.84 s after the end of speech"
    assert [line.split()[0] for line in stages].count("*") == len(WATERFALL.critical_path())
    assert "*    600 ms  transcript final       500 ms after transcription started" in stages
    assert lines([*ASKED, *ANSWERED, done()], shows_waterfall=True)[2:] == [f"  {line}" for line in (first, *stages)]
    assert time_lines(Waterfall(requested=1.0, first_sound=1.5)) == ["first sound 0.50 s after the request"]
    assert time_lines(Waterfall(speech_ended=1.0)) == []
