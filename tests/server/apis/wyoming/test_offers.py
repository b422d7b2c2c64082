"""What is announced, as the protocol's own package reads it, and which model and voice a client's words mean."""

from __future__ import annotations

import pytest
from wyoming.event import Event
from wyoming.info import Info

from antiphon.server.apis.wyoming.events import WantedVoice
from antiphon.server.apis.wyoming.info import info_event
from antiphon.server.apis.wyoming.offers import OfferedModel, Offers, language_tag
from antiphon.server.web.http.errors import ApiError

ENGLISH = OfferedModel("base.en", "Base", "someone", True, languages=("en",))
MANY = OfferedModel("base", "Base, many languages", "someone", True, languages=("en", "de", "no", "he"))
SMALL = OfferedModel("small", "Small voice", "someone", True, voices=(("heart", "en-us"), ("shared", "en-us")))
LARGE = OfferedModel(
    "hub:org/large", "Large voice", "someone", False, voices=(("af_bella", "en-us"), ("bm_fable", "en-gb"),
    ("shared", "en-us"), ("ff_siwis", "fr"))
)  # fmt: skip
OFFERS = Offers([ENGLISH, MANY], [SMALL, LARGE])


@pytest.mark.parametrize(
    ("language", "model"),
    [
        (None, "base.en"),
        ("en", "base.en"),
        ("en-GB", "base.en"),
        ("de_DE", "base"),
        ("nb-NO", "base"),
        ("xx", "base.en"),
    ],
)
def test_the_model_of_a_language(language: str | None, model: str) -> None:
    assert OFFERS.recogniser_for(language) == model


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (WantedVoice(), ("small", None)),
        (WantedVoice(name="heart"), ("small", "heart")),
        (WantedVoice(name="af_bella"), ("hub:org/large", "af_bella")),
        (WantedVoice(name="shared"), ("small", "shared")),
        (WantedVoice(name="hub:org/large/shared"), ("hub:org/large", "shared")),
        (WantedVoice(name="hub:org/large"), ("hub:org/large", None)),
        (WantedVoice(name="small", speaker="heart"), ("small", "heart")),
        (WantedVoice(name="af_bella:0.7+bm_fable:0.3"), ("hub:org/large", "af_bella:0.7+bm_fable:0.3")),
        (WantedVoice(name="nobody"), ("small", "nobody")),  # which has an error that lists its voices
        (WantedVoice(language="en-GB"), ("hub:org/large", "bm_fable")),
        (WantedVoice(language="en_AU"), ("small", "heart")),
        (WantedVoice(language="fr-CA"), ("hub:org/large", "ff_siwis")),
    ],
)
def test_the_voice_that_is_meant(wanted: WantedVoice, chosen: tuple[str, str | None]) -> None:
    assert OFFERS.speaker_for(wanted) == chosen


def test_a_language_that_no_voice_speaks() -> None:
    with pytest.raises(ApiError, match="no voice speaks 'de'; the languages are: en-us, en-gb, fr") as caught:
        OFFERS.speaker_for(WantedVoice(language="de"))
    assert caught.value.code == "voice_not_found"


def test_the_info_is_that_of_the_protocol() -> None:
    frame = info_event(OFFERS)
    info = Info.from_event(Event(frame.type, frame.data))
    assert [program.name for program in info.asr] == ["antiphon", "antiphon-live"]
    for program in info.asr:
        assert program.installed and program.supports_transcript_streaming and program.version
        assert [(model.name, model.languages) for model in program.models] == [
            ("base.en", ["en"]),
            ("base", ["en", "de", "no", "he"]),
        ]
    (speech,) = info.tts
    assert speech.installed and speech.supports_synthesize_streaming
    names = ["heart", "shared", "af_bella", "bm_fable", "hub:org/large/shared", "ff_siwis"]
    assert [voice.name for voice in speech.voices] == names
    assert [voice.installed for voice in speech.voices] == [True, True, False, False, False, False]
    assert speech.voices[3].languages == ["en-GB"] and speech.voices[3].description == "bm_fable (Large voice)"
    assert not (info.handle or info.intent or info.wake or info.mic or info.snd or info.satellite)


def test_a_server_without_sound_announces_nothing() -> None:
    frame = info_event(Offers([], []))
    info = Info.from_event(Event(frame.type, frame.data))
    assert info.asr == [] and info.tts == []
    assert Offers([], []).recogniser_for("en") is None and Offers([], []).speaker_for(WantedVoice()) == (None, None)


def test_language_tags() -> None:
    assert [language_tag(tag) for tag in ("en-us", "fr", "pt-br")] == ["en-US", "fr", "pt-BR"]
