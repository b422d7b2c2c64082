"""The hearing call, its recogniser and detectors played by the test: what it asks for, aborts and emits, in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon.engine.request import FinishReason, Priority
from antiphon.errors import EngineError, FetchError, OverloadedError
from antiphon.runtime.calls.hearing import (
    Cleared,
    CommitEmpty,
    HearingEnded,
    IdleTimeout,
    SettingsRejected,
    SpeechStarted,
    TurnDropped,
    TurnEnded,
    TurnFailed,
    TurnGuess,
    TurnLooked,
    TurnResumed,
    TurnText,
    TurnTranscript,
)
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnDetection, TurnSettings
from antiphon.runtime.loading.loading import LoadedModel
from support.models.tiny_whisper import tiny_whisper
from support.sound.hearing_scene import hearing_scene
from support.waiting import wait_until

SPEECH, SILENCE = 0.9, 0.05
SEMANTIC = HearingOptions(TurnSettings(TurnDetection.SEMANTIC_VAD))
MANUAL = HearingOptions(TurnSettings(TurnDetection.MANUAL), hypotheses=False)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return tiny_whisper()


def test_a_guess_stands_when_silence_goes_on(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SILENCE, 960), (SPEECH, 960), (SILENCE, 128))
        assert scene.next(SpeechStarted) == SpeechStarted(1, 660)
        assert scene.request().priority is Priority.HIGH
        scene.now += 0.5
        scene.recognise(" hello there")
        assert scene.next(TurnGuess) == TurnGuess(1, "hello there", 1920)
        scene.now += 0.2
        scene.hear((SILENCE, 416))
        ended = scene.next(TurnEnded)
        assert (ended.turn, ended.start_ms, ended.end_ms) == (1, 660, 1920)
        assert (ended.marks.speech_ended, ended.marks.decided) == (100.0, 100.7)
        final = scene.next(TurnTranscript)
        assert (final.turn, final.text, final.language, final.seconds) == (1, "hello there", "en", 1.26)
        assert [(segment.start, segment.text) for segment in final.segments] == [(0.66, " hello there")]
        marks = replace(ended.marks, transcription_started=100.0, transcription_ended=100.5, is_guess=True)
        assert final.marks == marks and scene.loop.num_jobs == 1


def test_a_turn_that_ends_while_its_guess_runs_takes_it(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 960), (SILENCE, 128))
        scene.request()
        scene.hear((SILENCE, 480))
        scene.next(SpeechStarted)
        scene.next(TurnEnded)
        scene.recognise(" so it is")
        assert scene.next(TurnTranscript).text == "so it is"
        assert (scene.loop.num_jobs, scene.loop.num_aborted) == (1, 0)


def test_speech_that_goes_on_voids_a_guess(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 640), (SILENCE, 128))
        scene.next(SpeechStarted)
        scene.recognise(" ask")
        scene.next(TurnGuess)
        scene.hear((SPEECH, 320), (SILENCE, 128))  # the second guess has more sound
        assert scene.next(TurnResumed) == TurnResumed(1)
        assert scene.request().task == "encode"
        scene.hear((SPEECH, 320))  # and is aborted while it runs
        scene.next(TurnResumed)
        wait_until(lambda: scene.loop.num_aborted == 1 and not scene.loop.running, "an abort", seen=lambda: scene.loop)
        scene.hear((SILENCE, 640))
        assert scene.next(TurnEnded).end_ms == 640 + 128 + 320 + 128 + 320
        scene.recognise(" ask not")
        final = scene.next(TurnTranscript)
        assert final.text == "ask not" and not final.marks.is_guess and scene.loop.num_jobs == 3


def test_a_final_aborts_a_running_hypothesis(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 1280))
        scene.next(SpeechStarted)
        hypothesis = scene.request()
        assert hypothesis.priority is Priority.NORMAL
        scene.hear((SILENCE, 128))
        wait_until(lambda: hypothesis.finish_reason is FinishReason.CANCELLED, "its end", seen=lambda: hypothesis)
        guess = scene.request()
        assert guess is not hypothesis and guess.priority is Priority.HIGH
        scene.recognise(" one two")
        assert scene.next(TurnGuess).text == "one two"
        scene.hear((SILENCE, 480))
        assert scene.next(TurnEnded).marks.num_hypotheses == 1


def test_what_two_hypotheses_agree_on_is_settled_until_the_transcript(loaded: LoadedModel) -> None:
    """The next hypothesis begins with it, and does not decode it again; the transcript is made anew."""
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 1024))
        scene.next(SpeechStarted)
        scene.recognise(" one two three four five")
        assert scene.next(TurnText) == TurnText(1, "", "one two three four five")
        scene.hear((SPEECH, 1024))
        scene.recognise(" one two three four five six seven")
        assert scene.next(TurnText) == TurnText(1, "one two", " three four five six seven")
        tokenizer = scene.transcriber.recogniser.tokenizer
        scene.hear((SPEECH, 1024))
        decoding = scene.recognise(" one two three four five six seven eight")
        assert tokenizer.decode(decoding.prompt).endswith(" one two")
        assert scene.next(TurnText).settled == "one two three four"
        scene.hear((SILENCE, 640))
        scene.next(TurnEnded)
        decoding = scene.recognise(" won two three four five six seven eight nine")
        assert "two" not in tokenizer.decode(decoding.prompt)
        assert scene.next(TurnTranscript).text == "won two three four five six seven eight nine"


@pytest.mark.parametrize("speculates", [False, True])
def test_the_last_hypothesis_is_the_draft_of_the_next(loaded: LoadedModel, speculates: bool) -> None:
    with hearing_scene(loaded) as scene:
        scene.transcriber.speculates = speculates
        tokenizer = scene.transcriber.recogniser.tokenizer
        texts = [" one two three four five", " one two three four five six seven", " one two three four five six eight"]
        drafts = []
        for text in texts:
            scene.hear((SPEECH, 1024))
            if text is texts[0]:
                scene.next(SpeechStarted)
            decoding = scene.recognise(text)
            drafts.append(tokenizer.decode(decoding.guess))
            assert decoding.speculates == bool(decoding.guess)
            scene.next(TurnText)
        scene.hear((SILENCE, 640))
        scene.next(TurnEnded)
        drafts.append(tokenizer.decode(scene.recognise(" one two").guess))
        scene.next(TurnTranscript)
    # The third begins with what is settled; the transcript is made anew.
    wanted = ["", texts[0], texts[1].removeprefix(" one two"), texts[2]]
    assert drafts == (wanted if speculates else [""] * 4)


def test_hypotheses_back_off_by_what_the_last_one_took(loaded: LoadedModel) -> None:
    with hearing_scene(loaded, HearingOptions(backoff=2.0)) as scene:
        scene.hear((SPEECH, 1024))
        scene.next(SpeechStarted)
        scene.request()
        scene.now += 3.0
        scene.recognise(" one")
        scene.next(TurnText)
        scene.now += 5.9
        scene.hear((SPEECH, 1024), (SPEECH, 1024))
        scene.sync()
        scene.call.hold_hypotheses(True)
        scene.sync()
        scene.now += 1.0
        scene.hear((SPEECH, 128))
        scene.sync()
        scene.call.commit()
        assert scene.next(TurnEnded).marks.num_hypotheses == 1  # none was begun, first too early, then held
        scene.recognise(" one two")
        scene.next(TurnTranscript)
        scene.call.hold_hypotheses(False)
        scene.hear((SPEECH, 1024))
        scene.next(SpeechStarted)
        scene.recognise(" three")
        scene.next(TurnText)
        assert scene.loop.num_jobs == 3


def test_a_hypothesis_that_is_due_is_made_though_no_more_sound_comes(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 1024))
        scene.next(SpeechStarted)
        scene.request()
        scene.hear((SPEECH, 1024))
        scene.sync()
        scene.now += 0.25
        scene.recognise("")
        assert scene.next(TurnText) == TurnText(1, "", "")
        scene.sync()
        assert scene.loop.num_jobs == 1  # too early
        scene.now += 0.25
        scene.recognise(" one")
        assert scene.next(TurnText) == TurnText(1, "", "one")


def test_no_hypotheses_where_none_are_wanted(loaded: LoadedModel) -> None:
    with hearing_scene(loaded, HearingOptions(hypotheses=False)) as scene:
        scene.hear((SPEECH, 4096), (SILENCE, 640))
        scene.recognise(" all of it")
        scene.next(SpeechStarted)
        scene.next(TurnEnded)
        assert scene.next(TurnTranscript).text == "all of it" and scene.loop.num_jobs == 1


def test_the_model_is_asked_until_the_turn_sounds_complete(loaded: LoadedModel) -> None:
    with hearing_scene(loaded, SEMANTIC) as scene:
        scene.detectors.answers += [0.25, 0.75]
        scene.hear((SPEECH, 960), (SILENCE, 4000))
        scene.next(SpeechStarted)
        assert scene.next(TurnLooked) == TurnLooked(1, 0.25, 960)
        assert scene.next(TurnLooked) == TurnLooked(1, 0.75, 960)
        ended = scene.next(TurnEnded)
        assert ended.end_ms == 960 and ended.marks.first_look == 100.0
        first, second = (len(asked) / 16 for asked in scene.detectors.asked)
        assert first == 960 + 192 and 960 + 512 <= second <= 960 + 640  # no later than a piece after its time
        scene.recognise(" that is all")
        assert scene.next(TurnTranscript).text == "that is all"


def test_a_turn_that_never_sounds_complete_ends_by_eagerness(loaded: LoadedModel) -> None:
    with hearing_scene(loaded, SEMANTIC) as scene:
        scene.detectors.answers += [0.1] * 9
        scene.hear((SPEECH, 960), (SILENCE, 4200))
        scene.next(SpeechStarted)
        for _ in range(4):
            scene.next(TurnLooked)
        assert scene.next(TurnEnded).end_ms == 960
        scene.recognise(" well")
        assert scene.next(TurnTranscript).text == "well"


def test_an_end_of_turn_model_that_cannot_be_loaded_ends_the_call(loaded: LoadedModel) -> None:
    with hearing_scene(loaded, SEMANTIC) as scene:
        scene.detectors.answers.append(FetchError("no smart-turn here"))
        scene.hear((SPEECH, 960), (SILENCE, 320))
        scene.next(SpeechStarted)
        with pytest.raises(FetchError, match="no smart-turn here"):
            scene.next(TurnEnded)


def test_clear_drops_the_open_turn_and_its_job(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 1280))
        scene.next(SpeechStarted)
        scene.request()
        scene.call.clear()
        assert scene.next(TurnDropped) == TurnDropped(1)
        assert scene.next(Cleared) == Cleared(1280)
        assert scene.loop.num_aborted == 1 and not scene.loop.running
        scene.call.clear()
        assert scene.next(Cleared) == Cleared(1280)
        scene.hear((SPEECH, 320), (SILENCE, 640))
        assert scene.next(SpeechStarted) == SpeechStarted(2, 1280)
        scene.next(TurnEnded)
        scene.recognise(" again")
        assert scene.next(TurnTranscript).text == "again"


def test_commit_ends_a_turn_in_the_middle(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 640))
        scene.call.commit()
        scene.next(SpeechStarted)
        assert scene.next(TurnEnded).end_ms == 640
        scene.hear((SPEECH, 320))  # the next turn begins before the transcript of the last
        assert scene.next(SpeechStarted) == SpeechStarted(2, 640)
        scene.recognise(" first")
        assert scene.next(TurnTranscript).text == "first"
        scene.hear((SILENCE, 544))
        assert scene.next(TurnEnded).start_ms == 640
        scene.recognise(" second")
        assert scene.next(TurnTranscript).text == "second"
        scene.call.commit()
        assert scene.next(CommitEmpty).milliseconds < 100


def test_a_commit_in_a_pause_takes_the_guess(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 640), (SILENCE, 128))
        scene.next(SpeechStarted)
        scene.recognise(" yes")
        guess = scene.next(TurnGuess)
        scene.call.commit()
        assert scene.next(TurnEnded).end_ms == guess.end_ms
        assert scene.next(TurnTranscript).text == guess.text and scene.loop.num_jobs == 1


def test_manual_turns_are_what_lies_between_commits(loaded: LoadedModel) -> None:
    with hearing_scene(loaded, MANUAL) as scene:
        scene.hear((SILENCE, 5120), (SPEECH, 640), (SILENCE, 5120))
        scene.call.commit()
        ended = scene.next(TurnEnded)
        assert (ended.turn, ended.start_ms, ended.end_ms) == (1, 0, 10_880)
        scene.recognise(" by hand")
        final = scene.next(TurnTranscript)
        assert final.text == "by hand" and final.seconds == 10.88
        assert 4.5 < final.segments[0].start <= 5.12  # of the silence before the speech little is transcribed
        scene.call.commit()
        assert scene.next(CommitEmpty) == CommitEmpty(0)
        scene.hear((SILENCE, 960))
        scene.call.commit()
        assert scene.next(TurnEnded).turn == 2
        assert scene.next(TurnTranscript).text == "" and scene.loop.num_jobs == 1  # silence is not transcribed


def test_settings_change_in_the_middle(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 640), (SILENCE, 320))
        scene.next(SpeechStarted)
        scene.recognise(" to be")
        scene.next(TurnGuess)
        scene.call.configure(TurnSettings(silence_ms=1000), TranscriptionOptions(translate=True))
        rejected = scene.next(SettingsRejected)
        assert rejected.kind == "InvalidRequestError" and "only English" in rejected.message
        scene.call.configure(TurnSettings(silence_ms=1000), TranscriptionOptions(prompt="names"))
        scene.hear((SILENCE, 640), (SILENCE, 64))
        assert scene.next(TurnEnded).end_ms == 640
        assert scene.next(TurnTranscript).text == "to be"
        scene.hear((SPEECH, 320))
        scene.next(SpeechStarted)
        scene.call.configure(TurnSettings(TurnDetection.MANUAL), TranscriptionOptions(prompt="names"))
        scene.hear((SILENCE, 4096))
        scene.call.commit()  # by hand now, and with the prompt before the text
        assert scene.next(TurnEnded).turn == 2
        decoding = scene.recognise(" or not")
        assert " names" in scene.transcriber.recogniser.tokenizer.decode(decoding.prompt)
        assert scene.next(TurnTranscript).text == "or not"
        scene.hear((SPEECH, 2048))
        scene.recognise(" that")
        assert scene.next(TurnText).turn == 3
        scene.call.configure(TurnSettings(), TranscriptionOptions())
        assert scene.next(TurnDropped) == TurnDropped(3)


def test_a_minimum_of_speech_and_the_idle_timeout(loaded: LoadedModel) -> None:
    with hearing_scene(loaded, HearingOptions(TurnSettings(prefix_ms=0, idle_timeout_ms=1000))) as scene:
        scene.call.set_min_speech(200)
        scene.call.rest(500)
        scene.hear((SPEECH, 160), (SILENCE, 2048))
        assert scene.next(IdleTimeout) == IdleTimeout(500, 1504)
        scene.hear((SPEECH, 320))
        assert scene.next(SpeechStarted) == SpeechStarted(1, 2208)


def test_a_long_turn_is_transcribed_window_by_window(loaded: LoadedModel) -> None:
    """The tiny model hears ten seconds, so a window is closed after eight, at its quietest."""
    with hearing_scene(loaded, HearingOptions(hypotheses=False)) as scene:
        scene.hear((SPEECH, 7040), (0.7, 32), (SPEECH, 6400))
        scene.next(SpeechStarted)
        first = scene.recognise(" one two")
        assert scene.next(TurnText) == TurnText(1, "one two", "")
        scene.hear((SPEECH, 640), (SILENCE, 640))
        second = scene.recognise(" three four")
        tokenizer = scene.transcriber.recogniser.tokenizer
        assert "one two" not in tokenizer.decode(first.prompt) and "one two" in tokenizer.decode(second.prompt)
        assert scene.next(TurnEnded).end_ms == 7040 + 32 + 6400 + 640
        final = scene.next(TurnTranscript)
        assert final.text == "one two three four" and scene.loop.num_jobs == 2
        assert [segment.start for segment in final.segments] == [0.0, 7.04]


def test_a_long_wait_inside_a_long_turn_fits_the_model(loaded: LoadedModel) -> None:
    """Speech, a pause that the end-of-turn model lets go on, and speech again are cut at the pause."""
    with hearing_scene(loaded, replace(SEMANTIC, hypotheses=False)) as scene:
        scene.detectors.answers += [0.1] * 4
        scene.hear((SPEECH, 7680), (SILENCE, 3200))
        scene.next(SpeechStarted)
        for _ in range(4):
            scene.next(TurnLooked)
        scene.recognise(" before it")
        scene.next(TurnGuess)
        scene.detectors.answers += [0.9]
        scene.hear((SPEECH, 960), (SILENCE, 640))
        scene.next(TurnResumed)
        scene.next(TurnLooked)
        scene.next(TurnEnded)
        scene.recognise(" before it")
        scene.recognise(" and after")
        final = scene.next(TurnTranscript)
        assert final.text == "before it and after"
        assert all(segment.end - segment.start < 8 for segment in final.segments)


def test_a_failed_transcription_is_that_turns_alone(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 640), (SILENCE, 640))
        scene.next(SpeechStarted)
        scene.next(TurnEnded)
        request = scene.request()
        del scene.loop.running[request.id]
        request.error = "a step failed"
        scene.loop.end(request, FinishReason.FAILED)
        failed = scene.next(TurnFailed)
        assert failed.turn == 1 and failed.kind == "EngineError" and "a step failed" in failed.message
        scene.loop.failure = OverloadedError("too many requests")
        scene.hear((SPEECH, 640), (SILENCE, 640))
        scene.next(SpeechStarted)
        scene.next(TurnEnded)
        assert scene.next(TurnFailed) == TurnFailed(2, "OverloadedError", "too many requests")
        scene.loop.failure = None
        scene.hear((SPEECH, 640), (SILENCE, 640))
        scene.next(SpeechStarted)
        scene.next(TurnEnded)
        scene.recognise(" well again")
        assert scene.next(TurnTranscript).text == "well again"


def test_an_engine_that_is_gone_ends_the_call(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.loop.failure = EngineError("the engine is closed")
        scene.hear((SPEECH, 640), (SILENCE, 640))
        with pytest.raises(EngineError, match="the engine is closed"):
            while True:
                scene.inbox.get(timeout=120)
        with pytest.raises(EngineError, match="ended"):
            scene.hear((SPEECH, 32))


def test_finish_transcribes_what_is_open_and_cancel_drops_it(loaded: LoadedModel) -> None:
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 640))
        scene.call.finish()
        scene.next(SpeechStarted)
        assert scene.next(TurnEnded).end_ms == 640
        scene.recognise(" the end")
        assert scene.next(TurnTranscript).text == "the end"
        assert scene.next(HearingEnded) == HearingEnded(0.64)
    with hearing_scene(loaded) as scene:
        scene.hear((SPEECH, 1280))
        scene.next(SpeechStarted)
        scene.request()
        scene.call.cancel()
        assert scene.next(HearingEnded) == HearingEnded(1.28)
        assert scene.loop.num_aborted == 1


def test_a_cancelled_call_tells_no_error(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the engine is closed: its calls are cancelled first, and meet what is closed after them."""
    with hearing_scene(loaded) as scene:

        def advance(_: object) -> None:
            scene.call.cancel()
            raise EngineError("the engine is closed")

        monkeypatch.setattr(scene.call._jobs, "advance", advance)
        scene.hear((SPEECH, 640))
        scene.next(SpeechStarted)
        assert scene.next(HearingEnded) == HearingEnded(0.64)
