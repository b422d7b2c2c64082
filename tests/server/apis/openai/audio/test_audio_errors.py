"""Sound that cannot be taken, and requests for sound that are wrong: OpenAI's client raises its own types."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from support.server.http_server import RunningServer
from support.sound.sounds import tone, wav_bytes

MODEL = "ggml-tiny"


def refusal(server: RunningServer, file: bytes, **more: Any) -> openai.APIStatusError:
    with server.openai() as client, pytest.raises(openai.APIStatusError) as caught:
        client.audio.transcriptions.create(**{"model": "whisper-1", "file": ("a.wav", file), **more})
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("file", "told"),
    [
        (b"", "0 bytes"),
        (b"this is no sound at all" * 20, "not a sound file"),
        (wav_bytes(tone(1))[:30], "short"),
        (wav_bytes(tone(1))[:44], "no samples"),
        (wav_bytes(tone(25, rate=8_000), 8_000), "20 s"),
    ],
    ids=["empty", "garbage", "cut header", "no samples", "too long"],
)
def test_bad_sound(hearing: RunningServer, file: bytes, told: str, stream: bool) -> None:
    error = refusal(hearing, file, stream=stream)
    assert isinstance(error, openai.BadRequestError)
    assert (error.code, error.param, error.type) == ("invalid_audio", "file", "invalid_request_error")
    assert told in error.message


WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"response_format": "mp4"}, "invalid_value", "response_format"),
    ({"response_format": "diarized_json"}, "invalid_value", "response_format"),
    ({"timestamp_granularities": ["letter"]}, "invalid_value", "timestamp_granularities[][0]"),
    ({"stream": True, "response_format": "srt"}, "unsupported_value", "stream"),
    ({"temperature": 3}, "invalid_value", "temperature"),
    ({"include": ["colour"]}, "invalid_value", "include[][0]"),
    ({"language": "klingon"}, "invalid_value", None),
    ({"model": "bert"}, "unsupported_model", "model"),
    ({"chunking_strategy": {"type": "server_vad", "threshold": "x"}}, "invalid_value", "chunking_strategy.threshold"),
]


@pytest.mark.parametrize(("fields", "code", "param"), WRONG, ids=[str(fields) for fields, *_ in WRONG])
def test_wrong_fields(hearing: RunningServer, fields: dict[str, Any], code: str, param: str | None) -> None:
    error = refusal(hearing, wav_bytes(tone(1)), **fields)
    assert isinstance(error, openai.BadRequestError)
    assert (error.code, error.param) == (code, param), error.message


def test_other_refusals(hearing: RunningServer) -> None:
    assert isinstance(refusal(hearing, wav_bytes(tone(1)), model="nobody"), openai.NotFoundError)
    large = refusal(hearing, bytes(2 << 20))
    assert (large.status_code, large.code) == (413, "body_too_large")
    assert "1,048,576" in large.message
    with hearing.openai() as client, pytest.raises(openai.BadRequestError, match="only English"):
        client.audio.translations.create(model="whisper-1", file=("a.wav", wav_bytes(tone(1))))


def test_hints_are_accepted(hearing: RunningServer) -> None:
    """Those of OpenAI without a word, others with their names in a header; the model is the only one that fits."""
    hints: dict[str, Any] = {
        "include": ["logprobs"],
        "keywords": ["choir", "antiphon"],
        "languages": ["en"],
        "known_speaker_names": ["Ada"],
        "known_speaker_references": ["data:audio/wav;base64,AAA="],
        "chunking_strategy": {"type": "server_vad", "threshold": 0.5},
    }
    with hearing.openai() as client:
        raw = client.audio.transcriptions.with_raw_response
        answer = raw.create(model="whisper-1", file=("a.wav", wav_bytes(tone(1))), **hints)
        assert "x-antiphon-ignored" not in answer.headers and isinstance(answer.parse().text, str)
        other = raw.create(
            model="whisper-1", file=("a.wav", wav_bytes(tone(1))), extra_body={"colour": "blue", "sizes": ["s", "m"]}
        )
        assert other.headers["x-antiphon-ignored"] == "colour, sizes[]"
        plain = raw.create(model="whisper-1", file=("a.wav", wav_bytes(tone(1))), timestamp_granularities=["word"])
        assert plain.headers["x-antiphon-ignored"] == "timestamp_granularities"
    file = {"file": ("a.wav", wav_bytes(tone(1)))}
    unnamed = httpx.post(f"{hearing.url}/v1/audio/transcriptions", files=file, timeout=30)
    assert unnamed.status_code == 200, unnamed.text


@pytest.mark.parametrize("path", ["transcriptions", "translations"])
def test_forms_that_are_none(hearing: RunningServer, path: str) -> None:
    url = f"{hearing.url}/v1/audio/{path}"
    file = {"file": ("a.wav", wav_bytes(tone(1)))}
    answers = [
        (httpx.post(url, json={"model": MODEL}), 415, "unsupported_media_type"),
        (httpx.post(url, data={"model": MODEL, "file": "text"}, files={"x": b""}), 400, "missing_required_parameter"),
        (httpx.post(url, files=file, data={"model": [MODEL, "bert"]}), 400, "invalid_value"),
        (httpx.post(url, files={**file, "second": b"1"}, data={"model": MODEL}), 400, "invalid_form"),
        (httpx.post(url, content=b"--x", headers={"content-type": "multipart/form-data"}), 400, "invalid_form"),
        (httpx.post(url, content=b"x", headers={"content-type": "multipart/form-data; boundary=y"}), 400, None),
    ]
    for answer, status, code in answers:
        assert answer.status_code == status, answer.text
        assert code is None or answer.json()["error"]["code"] == code, answer.text
    hearing.wait_until_idle()


def test_speech_needs_a_model_that_speaks(hearing: RunningServer) -> None:
    with hearing.openai() as client:
        with pytest.raises(openai.BadRequestError, match="is a transcription model; this request needs a speech model"):
            client.audio.speech.create(model="whisper-1", input="Hello.", voice="heart")
        for wrong, param in (
            ({"input": ""}, "input"),
            ({"input": " \n"}, "input"),
            ({"input": "a" * 101}, "input"),
            ({"speed": 9.0}, "speed"),
            ({"response_format": "ogg"}, "response_format"),
        ):
            with pytest.raises(openai.BadRequestError) as caught:
                client.audio.speech.create(**{"model": "whisper-1", "input": "Hello.", "voice": "heart", **wrong})
            assert caught.value.param == param
    assert httpx.get(hearing.url + "/v1/audio/voices?model=whisper-1").json()["error"]["code"] == "unsupported_model"
