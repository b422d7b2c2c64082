"""The effective session: defaults, deep merges, what clears, and what is rejected."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.realtime import RealtimeSessionCreateRequest, RealtimeTranscriptionSessionCreateRequest

from antiphon.runtime.calls.turn_settings import Eagerness, TurnDetection
from antiphon.runtime.voice.settings import Modality, ToolChoice
from antiphon.server.apis.realtime.audio_format import AudioFormat
from antiphon.server.apis.realtime.session_config import UNSETTLED, WORDS, SessionConfig, response_params
from antiphon.server.apis.realtime.wire_errors import WireError

TOOL = {"type": "function", "name": "get_weather", "description": "Weather.", "parameters": {"type": "object"}}


def new(**options: Any) -> SessionConfig:
    return SessionConfig("sess_1", "gpt-realtime", 1_800_000_000, **options)


def detection(config: SessionConfig) -> Any:
    return config.wire()["audio"]["input"]["turn_detection"]


def updated(config: SessionConfig, **audio_input: Any) -> SessionConfig:
    return config.updated({"type": "realtime", "audio": {"input": audio_input}})


def test_the_session_begins_with_all_its_fields() -> None:
    session = new().wire()
    RealtimeSessionCreateRequest.model_validate(session)
    assert session["type"] == "realtime" and session["object"] == "realtime.session" and session["id"] == "sess_1"
    assert session["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 500
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert session["output_modalities"] == ["audio"] and session["max_output_tokens"] == 1024
    settings = new().settings()
    assert settings.turns.detection is TurnDetection.SERVER_VAD and settings.create_response
    assert not settings.show_transcripts and settings.modality is Modality.AUDIO and settings.max_tokens is None


def test_only_fields_that_are_present_change() -> None:
    first = updated(new(), turn_detection={"type": "server_vad", "threshold": 0.7}).updated(
        {"instructions": "Be brief."}
    )
    second = first.updated({"audio": {"output": {"voice": "ash"}}})
    third = updated(second, turn_detection={"silence_duration_ms": 900})
    assert detection(third) == {
        "type": "server_vad",
        "threshold": 0.7,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 900,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }
    assert third.wire()["instructions"] == "Be brief." and third.wire()["audio"]["output"]["voice"] == "ash"
    assert third.wire()["audio"]["output"]["speed"] == 1.0
    assert detection(new())["threshold"] == 0.5  # an update leaves the session that it was made from alone


def test_null_and_empty_values_clear() -> None:
    full = new().updated(
        {
            "instructions": "Be brief.",
            "tools": [TOOL],
            "tool_choice": "required",
            "max_output_tokens": 100,
            "tracing": "auto",
            "audio": {"input": {"transcription": {"model": "whisper-1", "language": "en"}}, "output": {"voice": "ash"}},
        }
    )
    assert full.settings().tool_choice is ToolChoice.REQUIRED and full.settings().tools[0].name == "get_weather"
    assert full.settings().show_transcripts and full.settings().transcription.language == "en"
    bare = full.updated(
        {
            "instructions": "",
            "tools": [],
            "max_output_tokens": None,
            "tracing": None,
            "audio": {"input": {"transcription": None, "turn_detection": None}, "output": {"voice": None}},
        }
    )
    session = bare.wire()
    assert session["instructions"] == "" and session["tools"] == [] and session["max_output_tokens"] == 1024
    assert session["tracing"] is None and session["audio"]["input"]["transcription"] is None
    assert detection(bare) is None and bare.is_manual and session["audio"]["output"]["voice"] == "alloy"
    settings = bare.settings()
    assert settings.turns.detection is TurnDetection.MANUAL and not settings.create_response
    assert not settings.tools and settings.max_tokens is None and not settings.show_transcripts


def test_what_else_a_transcript_includes() -> None:
    names = [UNSETTLED, WORDS]
    config = new(is_transcription=True).updated({"include": ["item.input_audio_transcription.logprobs", *names]})
    RealtimeTranscriptionSessionCreateRequest.model_validate(config.wire())  # which has other names only
    assert config.settings().show_unsettled and config.settings().transcription.words
    for cleared in (config.updated({"include": None}), config.updated({"include": []}), new(is_transcription=True)):
        assert not cleared.settings().show_unsettled and not cleared.settings().transcription.words


def test_another_kind_of_turn_detection_begins_with_its_defaults() -> None:
    config = updated(new(), turn_detection={"type": "semantic_vad", "eagerness": "high", "interrupt_response": False})
    assert detection(config) == {
        "type": "semantic_vad",
        "eagerness": "high",
        "create_response": True,
        "interrupt_response": False,
    }
    assert config.settings().turns.eagerness is Eagerness.HIGH and not config.settings().interrupt_response
    back = updated(config, turn_detection={"type": "server_vad"})
    assert detection(back)["interrupt_response"] and detection(back)["silence_duration_ms"] == 500


def test_formats_are_replaced_as_a_whole() -> None:
    config = new().updated({"audio": {"input": {"format": {"type": "audio/pcmu"}}}})
    assert config.wire()["audio"]["input"]["format"] == {"type": "audio/pcmu"}
    assert config.input_format is AudioFormat.PCMU and config.output_format is AudioFormat.PCM
    assert config.updated({"audio": {"input": {"format": None}}}).input_format is AudioFormat.PCM


def test_a_voice_by_id_and_a_modality() -> None:
    config = new().updated({"audio": {"output": {"voice": {"id": "af_heart"}}}, "output_modalities": ["audio"]})
    assert config.settings().voice == "af_heart" and config.settings().modality is Modality.AUDIO
    assert config.updated({"output_modalities": ["text"]}).settings().modality is Modality.TEXT


def test_a_spoken_answer_has_a_limit_unless_the_client_sets_one() -> None:
    spoken, written = new(), new().updated({"output_modalities": ["text"]})
    assert spoken.settings().token_limit == 1024
    assert written.settings().token_limit is None and written.wire()["max_output_tokens"] == "inf"
    assert written.response_settings(response_params({"output_modalities": ["audio"]})).token_limit == 1024
    for limit, expected in (("inf", None), (4000, 4000)):
        set_ = spoken.updated({"max_output_tokens": limit})
        assert set_.settings().token_limit == expected and set_.wire()["max_output_tokens"] == limit
        assert spoken.response_settings(response_params({"max_output_tokens": limit})).token_limit == expected
        assert set_.updated({"max_output_tokens": None}).settings().token_limit == 1024


@pytest.mark.parametrize("is_by_address", [True, False])
def test_a_transcription_session(is_by_address: bool) -> None:
    config = new(is_transcription=True) if is_by_address else new().updated({"type": "transcription"})
    session = config.wire()
    RealtimeTranscriptionSessionCreateRequest.model_validate(session)
    assert session["object"] == "realtime.transcription_session" and "output" not in session["audio"]
    assert not config.settings().answer and config.settings().show_transcripts
    assert config.transcription_model == ("gpt-realtime" if is_by_address else "whisper-1")


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"type": "banana"}, "session.type"),
        ({"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 7}}}}, "threshold"),
        ({"audio": {"input": {"turn_detection": {"type": "psychic"}}}}, "session.audio.input.turn_detection"),
        ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}}, "session.audio.input.format"),
        ({"audio": {"output": {"speed": 9}}}, "session.audio.output.speed"),
        ({"max_output_tokens": 0}, "session.max_output_tokens"),
        ({"output_modalities": ["smell"]}, "session.output_modalities"),
        ({"output_modalities": ["audio", "text"]}, "session.output_modalities"),
        ({"modalities": ["audio"], "output_modalities": ["audio"]}, "session.modalities"),
        ({"input_audio_format": "mp3"}, "session.input_audio_format"),
        ({"voice": "ash", "audio": {"output": {"voice": "ash"}}}, "session.voice"),
        ({"voice": "ash", "audio": 5}, "session.audio"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "session.tools.0"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "other"}}, "session.tool_choice"),
        ({"prompt": {"id": "pmpt_1"}}, "session.prompt"),
        ({"instructions": 5}, "session.instructions"),
    ],
)
def test_a_wrong_value_is_rejected_with_its_place(given: dict[str, Any], param: str) -> None:
    with pytest.raises(WireError) as rejected:
        new().updated(given)
    assert param in (rejected.value.param or "") and rejected.value.message


def test_what_is_not_done_is_not_shown_as_done() -> None:
    config = new().updated({"include": ["item.input_audio_transcription.logprobs"]})
    config = updated(config, noise_reduction={"type": "near_field"})
    session = config.wire()
    assert session["include"] is None and session["audio"]["input"]["noise_reduction"] is None


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"surprise": 1}, "session.surprise"),
        ({"audio": {"input": {"pitch": 1}}}, "session.audio.input.pitch"),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "patience": 1}}}},
            "session.audio.input.turn_detection.patience",
        ),
    ],
)
def test_an_unknown_field_is_rejected_by_its_name(given: dict[str, Any], param: str) -> None:
    with pytest.raises(WireError) as rejected:
        new().updated(given)
    assert (rejected.value.code, rejected.value.param) == ("unknown_parameter", param)


def test_fields_of_the_beta_version_are_translated() -> None:
    config = new().updated(
        {
            "modalities": ["text", "audio"],
            "voice": "ash",
            "input_audio_format": "g711_ulaw",
            "output_audio_format": "pcm16",
            "input_audio_transcription": {"model": "whisper-1", "language": "en"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 700},
            "temperature": 0.8,
            "max_response_output_tokens": 77,
            "audio": {"output": {"speed": 1.25}},
        }
    )
    settings = config.settings()
    assert (settings.modality, settings.voice, settings.speed) == (Modality.AUDIO, "ash", 1.25)
    assert (settings.max_tokens, settings.temperature) == (77, 0.8)
    assert config.input_format is AudioFormat.PCMU and config.output_format is AudioFormat.PCM
    assert config.transcription_model == "whisper-1" and detection(config)["silence_duration_ms"] == 700
    written = new().updated({"modalities": ["text"], "turn_detection": None})
    assert written.is_manual and written.settings().modality is Modality.TEXT


def test_a_session_may_be_sent_back() -> None:
    config = new().updated({"instructions": "Be brief."})
    assert config.updated(config.wire()).wire() == config.wire()


def test_a_response_changes_the_settings_for_itself() -> None:
    config = new().updated({"instructions": "Be brief.", "tools": [TOOL]})
    params = response_params({"instructions": "Be long.", "tools": [], "output_modalities": ["text"]})
    settings = config.response_settings(params)
    assert settings.instructions == "Be long." and not settings.tools and settings.modality is Modality.TEXT
    assert config.response_settings(response_params(None)) == config.settings()
    spoken = response_params({"audio": {"output": {"voice": "verse", "format": {"type": "audio/pcma"}}}})
    assert config.response_settings(spoken).voice == "verse"
    with pytest.raises(WireError, match=r"response\.conversation"):
        response_params({"conversation": "conv_other"})
    early = response_params({"modalities": ["text"], "voice": "verse", "max_response_output_tokens": "inf"})
    assert config.response_settings(early).modality is Modality.TEXT
    assert config.response_settings(early).voice == "verse"
    with pytest.raises(WireError) as rejected:
        response_params({"turn_detection": None})
    assert (rejected.value.code, rejected.value.param) == ("unknown_parameter", "response.turn_detection")
    with pytest.raises(WireError, match=r"response\.output_modalities has 2 values"):
        config.response_settings(response_params({"output_modalities": ["audio", "text"]}))
