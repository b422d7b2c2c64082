"""Talking to servers that fail: every failure is one sentence with the server's address and what to do."""

from __future__ import annotations

import socket
import subprocess
import threading
from pathlib import Path

import pytest

from antiphon.cli.chat_models.remote import RemoteModel
from antiphon.cli.remote import client as client_module
from antiphon.cli.remote.address import ServerAddress, key_in
from antiphon.cli.remote.client import Client, ServerError
from antiphon.cli.remote.events import AnswerEvents
from antiphon.cli.remote.options import ServerOptions
from antiphon.errors import InvalidRequestError
from support.server.stub_server import (
    CUT,
    Answer,
    as_json,
    chat_events,
    event,
    failure,
    raw_server,
    streamed,
    stub_server,
)

MESSAGES = [{"role": "user", "content": "hello"}]


def ask(url: str, key: str | None = None) -> str:
    model = RemoteModel(Client(ServerAddress.parse(url, key)), "m")
    return "".join(model.answer(MESSAGES, {}))


def complaint(url: str) -> str:
    with pytest.raises(ServerError) as raised:
        ask(url)
    message = str(raised.value)
    assert url in message and "\n" not in message
    return message


# -- addresses and keys -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://localhost:8000/v1/", "http://localhost:8000"),
        ("https://api.example/v1", "https://api.example"),
        ("https://api.example:443", "https://api.example"),
        ("http://api.example/proxy/v1", "http://api.example/proxy"),
        ("http://[::1]:81", "http://[::1]:81"),
    ],
)
def test_base_urls(given: str, wanted: str) -> None:
    assert ServerAddress.parse(given).url == wanted


@pytest.mark.parametrize(
    "wrong",
    ["localhost:8000", "ftp://a", "http://", "http://a:b", "http://a:99999", "http://u:p@a", "http://a/?b", "http://[a",
     "http://a/b\r\nX: y", "http://a/b c"],
)  # fmt: skip
def test_what_is_not_a_base_url(wrong: str) -> None:
    with pytest.raises(InvalidRequestError, match="--base-url"):
        ServerAddress.parse(wrong)


def chosen_server(base_url: str | None, api_key_file: Path | None, local: bool) -> ServerAddress | None:
    return ServerOptions(base_url=base_url, api_key_file=api_key_file, local=local).named_server()


def test_the_flag_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANTIPHON_BASE_URL", raising=False)
    assert chosen_server(None, None, False) is None
    monkeypatch.setenv("ANTIPHON_BASE_URL", "http://variable:1")
    monkeypatch.setenv("ANTIPHON_API_KEY", "from-variable")
    chosen = chosen_server(None, None, False)
    assert chosen is not None and chosen.url == "http://variable:1" and chosen.api_key == "from-variable"
    assert "from-variable" not in repr(chosen)
    (tmp_path / "key").write_text("# mine\n\nfrom-file\nsecond\n")
    chosen = chosen_server("http://flag:2", tmp_path / "key", False)
    assert chosen is not None and chosen.url == "http://flag:2" and chosen.api_key == "from-file"
    assert chosen_server(None, None, True) is None
    for wrong in (("http://flag:2", None, True), ("", None, False), (None, tmp_path / "key", True)):
        with pytest.raises(InvalidRequestError):
            chosen_server(*wrong)
    monkeypatch.setenv("ANTIPHON_BASE_URL", "nonsense")
    with pytest.raises(InvalidRequestError, match="ANTIPHON_BASE_URL is 'nonsense'"):
        chosen_server(None, None, False)


@pytest.mark.parametrize("content", ["", "# nothing\n", "two words\n", "smörgås\n"])
def test_key_files_without_a_key(content: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidRequestError, match="key") as raised:
        key_in(tmp_path / "key", "--api-key-file")
    assert "words" not in str(raised.value)
    with pytest.raises(InvalidRequestError, match="No such file"):
        key_in(tmp_path / "none", "--api-key-file")


# -- failures -----------------------------------------------------------------------------------------------------


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert "Connection refused" in complaint(url) and "antiphon serve" in complaint(url)


def test_an_unknown_host() -> None:
    assert "cannot connect" in complaint("http://no-such-host.invalid:1")


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (failure(401, "the API key is missing or wrong"), ("missing or wrong", "--api-key-file", "ANTIPHON_API_KEY")),
        (failure(404, "no model is called 'm' here"), ("no model is called 'm' here",)),
        (failure(429, "too many requests", retry_after="3"), ("too many requests", "try again in 3 s")),
        (failure(503, "the server is shutting down"), ("shutting down", "try again later")),
        (failure(413, "too large"), ("too large", "send less")),
        (as_json({"detail": "Not allowed"}, 403), ("Not allowed",)),
        (as_json({"error": "plain words"}, 400), ("plain words",)),
        (Answer([b"oops"], 500, "text/plain"), ("status 500",)),
        (Answer([b"<html>"], 404, "text/html"), ("POST /v1/chat/completions", "not an OpenAI-compatible API")),
        (Answer([], 308, headers={"location": "https://other/v1"}), ("redirects to https://other/v1", "--base-url")),
        (Answer([b"<html>hello</html>"], 200, "text/html"), ("text/html", "not an OpenAI-compatible API")),
        (as_json({"id": 1}), ("application/json", "not an OpenAI-compatible API")),
        (streamed(b"data: {not json}\n\n"), ("not a JSON object", "incomplete")),
        (streamed(b"data: [1]\n\n"), ("not a JSON object",)),
        (streamed(event({"error": {"message": "the engine died"}})), ("broke off: the engine died",)),
        (streamed(*chat_events("a", "b")[:2]), ("before the answer was complete",)),
        (streamed(*chat_events("a", "b")[:2], CUT), ("before the answer was complete",)),
        (streamed(CUT), ("before the answer was complete",)),
    ],
)  # fmt: skip
def test_answers_that_are_failures(answer: Answer, parts: tuple[str, ...]) -> None:
    with stub_server({"/v1/chat/completions": answer}) as server:
        message = complaint(server.url)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("sent", "part"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH_9\r\n", "does not answer as an HTTP server"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "not an OpenAI-compatible API"),
        (b"HTTP/1.1 abc\r\n\r\n", "does not answer as an HTTP server"),
    ],
)
def test_what_is_not_an_http_server(sent: bytes, part: str) -> None:
    with raw_server(sent) as url:
        assert part in complaint(url)


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "SILENCE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert "did not answer within 0.05 s" in complaint(f"http://127.0.0.1:{listener.getsockname()[1]}")
    never = threading.Event()

    def silent() -> object:
        yield chat_events("a")[1]
        never.wait(120)

    with stub_server({"/v1/chat/completions": Answer(silent(), content_type="text/event-stream")}) as server:  # type: ignore[arg-type]
        assert "sent nothing for 0.05 s" in complaint(server.url)
        never.set()


def test_a_body_shorter_than_announced() -> None:
    with stub_server({"/v1/models": Answer([b'{"a": 1}'], size=99)}) as server:
        client = Client(ServerAddress.parse(server.url))
        with client.get("/v1/models") as response, pytest.raises(ServerError, match="91 bytes before"):
            response.json()


# -- what is sent and read ----------------------------------------------------------------------------------------


def test_the_key_is_sent_and_a_prefix_kept() -> None:
    with stub_server({"/proxy/v1/chat/completions": streamed(*chat_events("a"))}) as server:
        assert ask(server.url + "/proxy/v1", "my-secret") == "a"
        (request,) = server.requests
        assert request.headers["authorization"] == "Bearer my-secret"
        assert request.headers["host"] == server.url.removeprefix("http://")
        assert ask(server.url + "/proxy") == "a"
        assert "authorization" not in server.requests[1].headers


def test_events_that_arrive_in_odd_pieces() -> None:
    """Also: carriage returns, comments, other fields, and no blank after the colon."""
    data = b"".join([b": hello\r\n\r\n", b"event: x\r\n", *chat_events("hé", "llo")]).replace(b"\n", b"\r\n")
    data = data.replace(b"data: ", b"data:")
    pieces = [data[start : start + 7] for start in range(0, len(data), 7)]
    with stub_server({"/v1/chat/completions": streamed(*pieces)}) as server:
        assert ask(server.url) == "héllo"


def test_a_stream_may_end_by_a_finish_reason_without_the_last_event() -> None:
    with stub_server({"/v1/chat/completions": streamed(*chat_events("a", "b", done=False))}) as server:
        assert ask(server.url) == "ab"


def test_cancelling_from_another_thread_ends_the_iteration_and_the_connection() -> None:
    go_on = threading.Event()

    def endless() -> object:
        yield chat_events("a")[1]
        go_on.wait(120)
        while True:
            yield chat_events("b")[1]

    answer = Answer(endless(), content_type="text/event-stream")  # type: ignore[arg-type]
    with stub_server({"/v1/chat/completions": answer}) as server:
        stream = RemoteModel(Client(ServerAddress.parse(server.url)), "m").answer(MESSAGES, {})
        pieces = iter(stream)
        assert next(pieces) == "a"
        timer = threading.Timer(0.05, stream.cancel)
        timer.start()
        assert list(pieces) == []
        timer.join()
        go_on.set()
        assert server.client_left.wait(120)
        assert list(stream) == []
        assert stream.stats().finish_reason == "cancelled" and stream.stats().completion_tokens == 1


def test_https_with_a_trusted_and_an_untrusted_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = tmp_path / "cert.pem", tmp_path / "key.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*made, "-out", pair[0], "-keyout", pair[1], *name], check=True, capture_output=True)
    with stub_server({"/v1/chat/completions": streamed(*chat_events("over ", "TLS"))}, tls=pair) as server:
        assert "is not trusted" in complaint(server.url) and "SSL_CERT_FILE" in complaint(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
        assert ask(server.url) == "over TLS"
    with stub_server({}) as server:
        assert "write http://" in complaint(server.url.replace("http:", "https:"))


def test_stats_and_reasoning() -> None:
    events = chat_events("x", "y")
    thought = event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]})
    with stub_server({"/v1/chat/completions": streamed(events[0], thought, thought, *events[1:])}) as server:
        stream = RemoteModel(Client(ServerAddress.parse(server.url)), "m").answer(
            MESSAGES, {"temperature": 0.5, "stop": ("z",), "seed": None}
        )
        assert "".join(stream) == "<think>hmhm</think>xy"
        stats = stream.stats()
        assert (stats.prompt_tokens, stats.cached_tokens, stats.completion_tokens) == (7, 2, 2)
        assert stats.finish_reason == "stop" and stats.time_to_first_token > 0 and stats.tokens_per_second > 0
        (body,) = server.bodies()
    assert body["temperature"] == 0.5 and body["stop"] == ["z"] and "seed" not in body and "top_p" not in body


def test_an_event_stream_needs_its_type() -> None:
    with stub_server({"/x": as_json({})}) as server:
        client = Client(ServerAddress.parse(server.url))
        with pytest.raises(ServerError, match="other content"):
            AnswerEvents(client, client.get("/x"))
