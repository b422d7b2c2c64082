"""Where the time of a turn went."""

from __future__ import annotations

from antiphon.runtime.voice.waterfall import WAITS_FOR, Marks, Waterfall

TURN = Waterfall(
    speech_ended=10.0, turn_decided=10.5, transcription_started=10.1, transcript_final=10.4, answer_started=10.4,
    first_token=10.6, first_clause=10.9, sound_made=11.0, first_text=10.6, first_sound=11.0,
)  # fmt: skip


def path(waterfall: Waterfall) -> list[tuple[str, str, int]]:
    """The critical path, in milliseconds."""
    return [(stage.name, stage.waited_for, round(1000 * stage.seconds)) for stage in waterfall.critical_path()]


def test_a_turn_that_waits_for_its_parts() -> None:
    assert TURN.milliseconds()["first_sound"] == 1000
    assert path(TURN) == [
        ("transcription_started", "speech_ended", 100),
        ("transcript_final", "transcription_started", 300),
        ("answer_started", "transcript_final", 0),
        ("first_token", "answer_started", 200),
        ("first_clause", "first_token", 300),
        ("sound_made", "first_clause", 100),
        ("first_sound", "sound_made", 0),
    ]
    assert sum(waited for _, _, waited in path(TURN)) == 1000


def test_an_answer_that_waits_for_the_turn() -> None:
    late = Waterfall(**{**vars(TURN), "turn_decided": 12.0, "first_sound": 12.0})
    assert path(late) == [("turn_decided", "speech_ended", 2000), ("first_sound", "turn_decided", 0)]


def test_stages_begin_with_what_they_waited_for() -> None:
    stages = {stage.name: (stage.waited_for, round(stage.seconds, 3)) for stage in TURN.stages()}
    assert stages["turn_decided"] == ("speech_ended", 0.5) and stages["first_text"] == ("first_token", 0.0)
    assert set(stages) == set(vars(TURN)) - {"speech_ended", "requested"}
    cut_off = Waterfall(speech_ended=1.0, turn_decided=1.5, first_token=0.5)
    assert [stage.name for stage in cut_off.stages()] == ["turn_decided"]


def test_a_written_response_without_a_turn() -> None:
    marks = Marks(iter([5.0, 5.5, 6.0]).__next__)
    marks.note("requested")
    marks.note("answer_started")
    marks.note("first_token")
    marks.note("first_token")  # the first time counts
    assert marks.waterfall.milliseconds() == {"requested": 0, "answer_started": 500, "first_token": 1000}
    assert marks.waterfall.critical_path() == []
    assert Waterfall().milliseconds() == {}


def test_every_mark_that_waits_is_one() -> None:
    names = set(vars(Waterfall()))
    assert set(WAITS_FOR) | {name for waits in WAITS_FOR.values() for name in waits} == names
