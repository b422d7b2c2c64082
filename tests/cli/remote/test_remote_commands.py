"""`run`, `chat`, `embed`, `transcribe` and `speak` with a running server, which a stub plays here."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import wave
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from support.programs.command_line import PROGRAM, Invoke, Outcome
from support.programs.forks import BARE_MODULES, template
from support.server.stub_server import (
    CUT,
    Answer,
    Request,
    StubServer,
    as_json,
    chat_events,
    event,
    failure,
    form_of,
    streamed,
    stub_server,
)

DONE = b"data: [DONE]\n\n"
CHAT, RAW, SPEECH = "/v1/chat/completions", "/v1/completions", "/v1/audio/speech"
RATE = 24_000


def assert_complaint(outcome: Outcome, code: int, *parts: str) -> None:
    assert (outcome[0], outcome[1]) == (code, ""), outcome
    assert outcome[2].startswith("antiphon: ") and outcome[2].count("\n") == 1
    for part in parts:
        assert part in outcome[2]


# -- run and chat -------------------------------------------------------------------------------------------------


def test_run_streams_the_answer_and_sends_what_was_given(invoke: Invoke) -> None:
    with stub_server({CHAT: streamed(*chat_events("Hel", "lo"))}) as server:
        outcome = invoke("run", "m", "hi", "--base-url", server.url)
        assert outcome[:2] == (0, "Hello\n")
        assert outcome[2].startswith("7 prompt tokens (2 cached), first token after ")
        given = ["--temperature", "0", "--top-k", "5", "--seed", "3", "--stop", "a", "--stop", "b", "--max-tokens", "9"]
        invoke("run", "m", "hi", "--base-url", server.url, "--system", "be brief", *given)
        plain, full = server.bodies()
    usual = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    assert plain == {**usual, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 256}
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    settings = {"temperature": 0, "top_k": 5, "seed": 3, "stop": ["a", "b"], "max_tokens": 9}
    assert full == {**usual, "messages": messages, **settings}


def test_speculation_is_asked_for_and_what_came_of_it_is_shown(invoke: Invoke) -> None:
    details = {"accepted_prediction_tokens": 3, "rejected_prediction_tokens": 1}
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "completion_tokens_details": details}
    with stub_server(
        {CHAT: streamed(*chat_events("Hello", done=False), event({"choices": [], "usage": usage}), DONE)}
    ) as server:
        outcome = invoke("run", "m", "hi", "--speculate", "ngram", "--base-url", server.url)
        assert outcome[:2] == (0, "Hello\n")
        assert "tok/s (3 of 4 drafted tokens accepted), ended by" in outcome[2]
        (body,) = server.bodies()
    assert body["speculate"] == "ngram"


def test_run_raw_and_several_samples(invoke: Invoke) -> None:
    pieces = [(0, "a"), (1, "x"), (0, "b"), (1, "y")]
    events = [event({"choices": [{"index": index, "text": text}]}) for index, text in pieces]
    ends = [event({"choices": [{"index": index, "text": "", "finish_reason": "length"}]}) for index in (0, 1)]
    with stub_server({RAW: streamed(*events, *ends)}) as server:
        outcome = invoke("run", "m", "-", "--raw", "--n", "2", "--base-url", server.url, stdin=b"Once")
        assert outcome[:2] == (0, "ab\nxy\n")
        (body,) = server.bodies()
        assert body["prompt"] == "Once" and body["n"] == 2 and "messages" not in body
        assert_complaint(invoke("run", "m", "a", "--raw", "--system", "s", "--base-url", server.url), 2, "--system")


def test_forms_of_answers(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    with stub_server({CHAT: streamed(*chat_events("x"))}) as server:
        for form in (
            ["--json-schema", str(tmp_path / "schema.json")],
            ["--regex", "[ab]"],
            ["--choice", "a", "--choice", "b"],
        ):
            assert invoke("run", "m", "hi", "--base-url", server.url, *form)[0] == 0
        schema, regex, choice = server.bodies()
        wrong = invoke("run", "m", "hi", "--regex", "a", "--choice", "a", "--base-url", server.url)
    assert schema["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert regex["guided_regex"] == "[ab]" and choice["guided_choice"] == ["a", "b"]
    assert_complaint(wrong, 2, "--regex and --choice exclude each other")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["run", "m", "hi"], ["--kv-memory", "9"]),
        (["run", "m", "hi"], ["--kv-type", "int8"]),
        (["run", "m", "hi"], ["--quantize", "q4"]),
        (["run", "m", "hi"], ["--trace", "t.json"]),
        (["run", "m", "hi"], ["--profile"]),
        (["run", "m", "hi"], ["--no-record"]),
        (["run", "m", "hi"], ["--no-repack"]),
        (["run", "m", "hi"], ["--offline"]),
        (["chat", "m"], ["--kv-memory", "9"]),
        (["embed", "m", "FILE"], ["--quantize", "q4"]),
        (["transcribe", "FILE"], ["--quantize", "int8"]),
        (["transcribe", "FILE"], ["--kv-memory", "9"]),
        (["transcribe", "FILE"], ["--live"]),
        (["transcribe", "FILE", "--live"], ["--speculate", "ngram"]),
        (["speak", "hi", "-o", "x.wav"], ["--srt", "x.srt"]),
        (["speak", "hi", "-o", "x.wav"], ["--precision", "fp32"]),
        (["speak", "hi", "-o", "x.wav"], ["--seed", "1"]),
    ],
)
def test_options_of_embedded_models_are_rejected(
    command: list[str],
    options: list[str],
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("text")
    with stub_server({}) as server:
        given = invoke(*command, *options, "--base-url", server.url)
        assert_complaint(given, 2, options[0], "--base-url", server.url)
        monkeypatch.setenv("ANTIPHON_BASE_URL", server.url)
        assert_complaint(invoke(*command, *options), 2, options[0], "ANTIPHON_BASE_URL", "--local")
        assert server.requests == [] and sorted(path.name for path in tmp_path.iterdir()) == ["FILE"]


def test_the_variable_names_the_server_and_local_ignores_it(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    with stub_server({CHAT: streamed(*chat_events("x"))}) as server:
        monkeypatch.setenv("ANTIPHON_BASE_URL", server.url)
        monkeypatch.setenv("ANTIPHON_API_KEY", "a-secret-key")
        assert invoke("run", "no-such-model", "hi")[:2] == (0, "x\n")
        assert server.requests[0].headers["authorization"] == "Bearer a-secret-key"
        assert_complaint(invoke("run", "no-such-model", "hi", "--local"), 1, "no-such-model")
        assert len(server.requests) == 1


def test_text_before_a_failure_is_kept(invoke: Invoke) -> None:
    with stub_server({CHAT: streamed(*chat_events("par", "tial")[:2], CUT)}) as server:
        outcome = invoke("run", "m", "hi", "--base-url", server.url)
    assert outcome[:2] == (1, "par\n") and "before the answer was complete" in outcome[2]


def test_ctrl_c_closes_the_connection() -> None:
    def endless() -> object:
        while True:
            yield chat_events("word ")[1]

    answer = Answer(endless(), content_type="text/event-stream")  # type: ignore[arg-type]
    with stub_server({CHAT: answer}) as server:
        reading, writing = os.pipe()
        with TemporaryFile("w+") as errors, open(reading, "rb") as output:
            arguments = ["run", "m", "hi", "--base-url", server.url]
            program = template(*BARE_MODULES).start(PROGRAM, arguments, (writing, writing, errors.fileno()))
            os.close(writing)
            assert output.read(5) == b"word "
            program.send_signal(signal.SIGINT)
            output.read()
            assert program.wait(60) == 130
            errors.seek(0)
            assert "Traceback" not in errors.read()
        assert server.client_left.wait(120)


def test_chat_keeps_the_conversation(invoke: Invoke) -> None:
    def answer(request: Request) -> Answer:
        messages = request.json()["messages"]
        if messages[-1]["content"] == "fail":
            return failure(503, "not now")
        return streamed(*chat_events(f"answer {len(messages)}"))

    with stub_server({CHAT: answer}) as server:
        lines = b"one\nfail\ntwo\n"
        outcome = invoke("chat", "m", "--system", "s", "--base-url", server.url, stdin=lines)
        last = server.bodies()[-1]
    assert outcome[:2] == (1, "answer 2\nanswer 4\n") and "not now" in outcome[2]
    assert [message["content"] for message in last["messages"]] == ["s", "one", "answer 2", "two"]


# -- embed --------------------------------------------------------------------------------------------------------


def test_embed_sends_batches_and_keeps_the_order(invoke: Invoke, tmp_path: Path) -> None:
    def vectors(request: Request) -> Answer:
        texts = request.json()["input"]
        data = [{"index": index, "embedding": [float(text), 0.123456789]} for index, text in enumerate(texts)]
        return as_json({"data": data[::-1]})

    path = tmp_path / "texts"
    path.write_text("\n".join(map(str, range(300))))
    with stub_server({"/v1/embeddings": vectors}) as server:
        outcome = invoke("embed", "m", str(path), "--base-url", server.url)
        assert [len(body["input"]) for body in server.bodies()] == [128, 128, 44]
        server.routes["/v1/embeddings"] = as_json({"data": []})
        short = invoke("embed", "m", str(path), "--base-url", server.url)
        server.routes["/v1/embeddings"] = as_json({"object": "list"})
        wrong = invoke("embed", "m", str(path), "--base-url", server.url)
    assert outcome[0] == 0
    assert [json.loads(line) for line in outcome[1].splitlines()] == [[float(n), 0.1234568] for n in range(300)]
    assert_complaint(short, 1, "0 embeddings for 128 texts")
    assert_complaint(wrong, 1, "without embeddings")


# -- transcribe ---------------------------------------------------------------------------------------------------


def test_transcribe_uploads_recordings_and_keeps_their_order(invoke: Invoke, tmp_path: Path) -> None:
    recordings = [tmp_path / "öne.wav", tmp_path / "two.wav", tmp_path / "three.wav"]
    sounds = [b"first \r\n--x", bytes(range(256)) * 3000, b""]
    for path, sound in zip(recordings, sounds, strict=True):
        path.write_bytes(sound)
    second_done = threading.Event()

    def answer(request: Request) -> Answer:
        sound = form_of(request)[-1][2]
        if not sound:
            return failure(400, "the file has no sound")
        if sound == sounds[0]:
            assert second_done.wait(120)
        else:
            second_done.set()
        return Answer([f"{len(sound)} bytes\n".encode()], content_type="text/plain")

    with stub_server({"/v1/audio/transcriptions": answer}) as server:
        names = [str(path) for path in recordings]
        outcome = invoke("transcribe", *names, "--model", "w", "--language", "en", "--base-url", server.url)
        forms = {form[-1][1]: form for form in map(form_of, server.requests)}
    assert outcome[:2] == (
        1,
        f"==> {names[0].encode().decode('latin-1')} <==\n11 bytes\n==> {names[1]} <==\n768000 bytes\n",
    )
    assert f"antiphon: {names[2]}: {server.url}: the file has no sound" in outcome[2]
    assert forms["two.wav"][:-1] == [
        ("model", None, b"w"),
        ("response_format", None, b"text"),
        ("language", None, b"en"),
        ("stream", None, b"true"),
    ]
    assert forms["two.wav"][-1] == ("file", "two.wav", sounds[1])


def test_transcripts_as_json_and_files(invoke: Invoke, tmp_path: Path) -> None:
    verbose = {"text": "Hé.", "segments": [{"id": 0}], "words": [], "usage": {"type": "duration"}}
    routes = {
        "/v1/audio/transcriptions": lambda request: as_json(
            verbose if b"verbose_json" in request.body else {"text": "Hé.", "usage": 1}
        ),
        "/v1/audio/translations": Answer([b"1\n00:00"], content_type="text/plain"),
    }
    with stub_server(routes) as server:
        plain = invoke("transcribe", "-", "--format", "json", "--base-url", server.url, stdin=b"sound")
        assert plain[:2] == (0, '{"text": "Hé."}\n'.encode().decode("latin-1"))
        options = [
            "--format",
            "verbose_json",
            "--words",
            "--beam",
            "3",
            "--sequential",
            "--output",
            str(tmp_path / "out"),
        ]
        assert invoke("transcribe", "-", *options, "--base-url", server.url, stdin=b"sound")[:2] == (0, "")
        written = json.loads((tmp_path / "out" / "stdin.json").read_text(encoding="utf-8"))
        assert written == {"text": "Hé.", "segments": [{"id": 0}], "words": []}
        fields = [(name, value) for name, _, value in form_of(server.requests[-1])]
        for wanted in (
            ("timestamp_granularities[]", b"word"),
            ("timestamp_granularities[]", b"segment"),
            ("beam_size", b"3"),
            ("sequential", b"true"),
            ("file", b"sound"),
        ):
            assert wanted in fields
        translated = invoke("transcribe", "-", "--translate", "--format", "srt", "--base-url", server.url, stdin=b"s")
        assert translated[:2] == (0, "1\n00:00\n")


# -- speak --------------------------------------------------------------------------------------------------------


def wav_stream(samples: bytes) -> list[bytes]:
    """A WAV file of unknown length, as servers stream it, in odd pieces."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
    header = file.getvalue()
    data = header[:4] + b"\xff\xff\xff\xff" + header[8:40] + b"\xff\xff\xff\xff" + samples
    return [data[:3], data[3:43], *(data[start : start + 999] for start in range(43, len(data), 999))]


SAMPLES = bytes(range(256)) * 100


def test_speak_writes_a_wav_file_that_states_its_length(invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "out.wav"
    (tmp_path / "lexicon").write_text("gif ʤˈɪf\n", encoding="utf-8")
    with stub_server({SPEECH: Answer(wav_stream(SAMPLES), content_type="audio/wav")}) as server:
        options = ["--voice", "v", "--speed", "2", "--language", "en-gb", "--lexicon", str(tmp_path / "lexicon")]
        outcome = invoke("speak", "Hi.", "-o", str(out), "--model", "t", *options, "--base-url", server.url)
        invoke("speak", "Hi.", "-o", str(out), "--model", "t", "--base-url", server.url)
        full, plain = server.bodies()
    assert outcome[:2] == (0, "") and f"{len(SAMPLES) / 2 / RATE:.1f} s of speech" in outcome[2]
    with wave.open(str(out)) as file:
        assert (file.getframerate(), file.readframes(10**6)) == (RATE, SAMPLES)
    assert plain == {"model": "t", "input": "Hi.", "response_format": "wav"}
    settings = {"voice": "v", "speed": 2.0, "language": "en-gb", "pronunciations": {"gif": "ʤˈɪf"}}
    assert full == {**plain, **settings}


def test_speak_to_a_pipe_and_in_other_formats(invoke: Invoke, tmp_path: Path) -> None:
    with stub_server({SPEECH: Answer([b"ID3", b"mp3 bytes"], content_type="audio/mpeg")}) as server:
        assert invoke("speak", "Hi.", "-o", str(tmp_path / "a.mp3"), "--base-url", server.url)[0] == 0
        assert (tmp_path / "a.mp3").read_bytes() == b"ID3mp3 bytes"
        outcome = invoke("speak", "-", "-o", "-", "--format", "opus", "--base-url", server.url, stdin=b"Hi.")
        assert outcome[:2] == (0, "ID3mp3 bytes") and "12 bytes of sound" in outcome[2]
        assert [body["response_format"] for body in server.bodies()] == ["mp3", "opus"]


def test_speak_plays_the_samples_as_they_come(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player = tmp_path / "bin" / "aplay"
    player.parent.mkdir()
    player.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n/bin/cat > {tmp_path}/played\n')
    player.chmod(0o755)
    monkeypatch.setenv("PATH", str(player.parent))
    with stub_server({SPEECH: Answer(wav_stream(SAMPLES), content_type="audio/wav")}) as server:
        assert invoke("speak", "Hi.", "--base-url", server.url)[0] == 0
        assert (tmp_path / "played").read_bytes() == SAMPLES
        assert str(RATE) in (tmp_path / "arguments").read_text()
        assert invoke("speak", "Hi.", "--play", "-o", str(tmp_path / "a.wav"), "--base-url", server.url)[0] == 0
        both = invoke("speak", "Hi.", "--play", "-o", str(tmp_path / "a.mp3"), "--base-url", server.url)
    assert_complaint(both, 2, "--play", "mp3")


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (failure(404, "no model is called 't'"), "no model is called 't'"),
        (as_json({"ok": True}), "not with sound"),
        (Answer([], content_type="audio/wav"), "sent no sound"),
    ],
)
def test_a_failed_request_for_speech_leaves_no_file(answer: Answer, part: str, invoke: Invoke, tmp_path: Path) -> None:
    with stub_server({SPEECH: answer}) as server:
        assert_complaint(invoke("speak", "Hi.", "-o", str(tmp_path / "a.wav"), "--base-url", server.url), 1, part)
    assert list(tmp_path.iterdir()) == []


def test_speech_that_breaks_off_is_an_error(invoke: Invoke, tmp_path: Path) -> None:
    pieces = [*wav_stream(SAMPLES)[:5], CUT]
    with stub_server({SPEECH: Answer(pieces, content_type="audio/wav")}) as server:
        outcome = invoke("speak", "Hi.", "-o", str(tmp_path / "a.wav"), "--base-url", server.url)
    assert_complaint(outcome, 1, "before the answer was complete")


def test_voices_of_a_server(invoke: Invoke) -> None:
    def voices(request: Request) -> Answer:
        assert request.path.endswith("?model=a%2Fb%20c")
        return as_json({"data": [{"name": "heart", "language": "en-us", "gender": None}]})

    with stub_server({"/v1/audio/voices": voices}) as server:
        assert invoke("speak", "--voices", "--model", "a/b c", "--base-url", server.url)[:2] == (
            0,
            "heart            en-us\n",
        )


# -- what is imported ---------------------------------------------------------------------------------------------

HEAVY = {"torch", "numpy", "transformers", "tokenizers", "gguf", "jinja2", "rich", "pydantic", "httpx", "asyncio", "av"}


@pytest.fixture
def everything(tmp_path: Path) -> object:
    (tmp_path / "texts").write_text("one\n")
    routes = {
        CHAT: streamed(*chat_events("x")),
        "/v1/embeddings": as_json({"data": [{"index": 0, "embedding": [1.0]}]}),
        "/v1/audio/transcriptions": Answer([b"words\n"], content_type="text/plain"),
        SPEECH: Answer(wav_stream(SAMPLES), content_type="audio/wav"),
        "/admin/models": as_json({"models": [], "catalog": [], "memory": {}}),
    }
    with stub_server(routes) as server:  # type: ignore[arg-type]
        yield server


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "m", "hi"],
        ["chat", "m"],
        ["embed", "m", "texts"],
        ["transcribe", "texts"],
        ["speak", "hi", "-o", "out.wav"],
        ["ps"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_talking_to_a_server_imports_nothing_heavy(
    arguments: list[str], everything: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path))
    code = f"""
import sys
sys.argv = ["antiphon", *{arguments!r}, "--base-url", {everything.url!r}]
from antiphon.cli.app import main
try:
    main()
finally:
    print("\\n", *sys.modules, file=sys.stderr)
"""
    result = template(*BARE_MODULES).run(code, (), stdin="hello\n")
    assert result.returncode == 0, result.stderr[-500:]
    assert everything.requests
    loaded = {name.partition(".")[0] for name in result.stderr.splitlines()[-1].split()}
    assert "antiphon" in loaded and loaded & HEAVY == set()
