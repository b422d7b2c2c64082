"""The names that clients of OpenAI's API use for models and voices work on a server that names none of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from antiphon.ops.native.row_scaled import has_row_scaled
from antiphon.server.serving.setup.config import LoadOnUse, ModelSpec, ServerConfig
from support.server.http_server import RunningServer, running_server
from support.server.pool import ServerPool
from support.sound.heard_words import is_heard
from support.sound.speech import JFK_TEXT, jfk

VOICES = ["alloy", "ash", "ballad", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer", "verse"]
SPEECH = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
TRANSCRIPTION = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe")
SPOKEN = "The quick brown fox jumps over the lazy dog."


def roots(server: RunningServer) -> dict[str, str]:
    return {card["id"]: card["root"] for card in httpx.get(server.url + "/v1/models").json()["data"]}


def test_what_the_names_lead_to_without_models_of_their_own(server: RunningServer) -> None:
    found = roots(server)
    assert {found[name] for name in SPEECH} == {"hibari-6m"}
    assert {found[name] for name in TRANSCRIPTION} == {"whisper-base.en"}
    card = httpx.get(server.url + "/v1/models/tts-1").json()
    assert (card["id"], card["root"], card["state"], card["task"]) == ("tts-1", "hibari-6m", "unloaded", "synthesize")


def test_nothing_leads_to_models_that_may_not_be_loaded(servers: ServerPool, chat_folder: Path) -> None:
    specs = (ModelSpec.of(str(chat_folder)),)
    config = ServerConfig(models=specs, load_on_use=LoadOnUse.CONFIGURED, offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        assert roots(running) == {"tiny-chat": "tiny-chat", "default-chat": "tiny-chat"}
        answer = httpx.post(running.url + "/v1/audio/speech", json={"model": "tts-1", "input": "a", "voice": "alloy"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


@pytest.fixture(scope="module")
def sound(model_path: Callable[[str], Path], chat_folder: Path) -> Iterator[RunningServer]:
    """As `antiphon serve` has it: no model for sound is configured."""
    for name in ("whisper-base.en", "hibari-6m", "kokoro-82m", "english-phonemes"):
        model_path(name)
    config = ServerConfig(
        models=(ModelSpec.of(str(chat_folder)),),
        voice_aliases={"narrator": "bm_george:2+bm_lewis", "echo": "am_liam"},
        memory_bytes=4 << 30,
        offline=True,
    )
    with running_server(config, {"kv_bytes": 128 << 20, "quantize": "auto"}) as running:
        yield running


def speech(server: RunningServer, **body: Any) -> bytes:
    answer = httpx.post(server.url + "/v1/audio/speech", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    assert body.get("response_format") or answer.headers["content-type"] == "audio/mpeg"
    return answer.content


@pytest.mark.slow
@pytest.mark.weights
def test_speech_without_a_format_comes_back_as_its_words(sound: RunningServer) -> None:
    mp3 = speech(sound, model="tts-1", input=SPOKEN, voice="alloy")
    assert mp3[0] == 0xFF and mp3[1] & 0xE0 == 0xE0  # the synchronisation word of an MPEG frame
    answer = httpx.post(
        sound.url + "/v1/audio/transcriptions",
        files={"file": ("a.mp3", mp3)},
        data={"model": "whisper-1"},
        timeout=300,
    )
    assert answer.status_code == 200 and is_heard(SPOKEN, answer.json()["text"])
    assert (roots(sound)["tts-1"], roots(sound)["whisper-1"]) == ("hibari-6m", "whisper-base.en")


@pytest.mark.slow
@pytest.mark.weights
def test_whisper_is_int8_unless_told_and_still_right(sound: RunningServer) -> None:
    with sound.openai() as client:
        create = client.with_options(timeout=300).audio.transcriptions.create
        assert is_heard(JFK_TEXT, create(model="gpt-4o-transcribe", file=jfk()).text)
    assert {roots(sound)[name] for name in TRANSCRIPTION} == {"whisper-base.en"}
    forms = {name: model.loaded.forms for name, model in sound.serving.models.names().items() if model.loaded}
    form = "I8" if has_row_scaled() else "Q8_0"
    assert f"quantised to {form}" in forms["whisper-1"] and "quantised" not in forms["tiny-chat"]


@pytest.mark.slow
@pytest.mark.weights
def test_every_voice_on_a_model_with_one(sound: RunningServer) -> None:
    own = speech(sound, model="hibari-6m", input="Hello.", voice="heart", response_format="pcm")
    for model, voice in (("tts-1", "nova"), ("gpt-4o-mini-tts", VOICES[0]), ("hibari-6m", VOICES[-1])):
        assert speech(sound, model=model, input="Hello.", voice=voice, response_format="pcm") == own
    told = httpx.get(sound.url + "/v1/audio/voices").json()
    first, *others = told["data"]
    assert (told["model"], first["id"], first["same_as"]) == ("hibari-6m", "heart", None)
    assert set(first["aliases"]) == {*VOICES, "marin", "cedar", "narrator"}
    assert {voice["id"] for voice in others} == set(first["aliases"])
    assert {voice["same_as"] for voice in others} == {"heart"}


@pytest.mark.slow
@pytest.mark.weights
def test_voices_of_their_own_on_kokoro(sound: RunningServer) -> None:
    told = httpx.get(sound.url + "/v1/audio/voices?model=kokoro-82m", timeout=300).json()
    same_as = {voice["id"]: voice["same_as"] for voice in told["data"]}
    assert len({same_as[voice] for voice in VOICES}) == len(VOICES)
    assert (same_as["nova"], same_as["af_nova"], same_as["echo"]) == ("af_nova", None, "am_liam")
    assert (same_as["narrator"], same_as["fable"]) == ("bm_george:2+bm_lewis", "bm_fable")
    by_name = {voice["id"]: voice for voice in told["data"]}
    assert by_name["af_nova"]["aliases"] == ["nova"] and by_name["fable"]["language"] == "en-gb"
    for alias, voice in (("nova", "af_nova"), ("echo:1+nova:3", "am_liam+af_nova:3")):
        made = [
            speech(sound, model="kokoro-82m", input="Hello.", voice=name, response_format="pcm")
            for name in (alias, voice)
        ]
        assert made[0] == made[1]
    with sound.openai() as client, pytest.raises(openai.BadRequestError, match=r"no voice 'bob'; .* by alias: alloy"):
        client.audio.speech.create(model="kokoro-82m", input="Hello.", voice="bob")


@pytest.mark.slow
@pytest.mark.weights
def test_a_chat_spoken_by_alloy(sound: RunningServer) -> None:
    with sound.openai() as client:
        answer = client.with_options(timeout=300).chat.completions.create(
            model="default-chat",
            messages=[{"role": "user", "content": "Say hello."}],
            modalities=["text", "audio"],
            audio={"voice": "alloy", "format": "mp3"},
            extra_body={"guided_regex": "Hello there\\."},
        )
    audio = answer.choices[0].message.audio
    assert audio is not None and audio.transcript == "Hello there." and len(base64.b64decode(audio.data)) > 1000
