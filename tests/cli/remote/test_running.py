"""A running server that a command finds by itself: which one is taken, and what happens if it cannot answer."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import __version__
from antiphon.cli.chat_models import fallback
from antiphon.cli.chat_models.fallback import FallbackModel
from antiphon.cli.remote import running
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import ServerError, UnreachableError
from antiphon.cli.remote.running import running_server
from antiphon.server.serving.setup.run_file import LocalServer, published
from support.programs.command_line import Invoke
from support.server.stub_server import (
    Answer,
    Request,
    StubServer,
    as_json,
    chat_events,
    failure,
    streamed,
    stub_server,
)

MODEL = "smollm2-135m"
CHAT = "/v1/chat/completions"
NOTE = "--local loads the model here\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ANTIPHON_API_KEY", raising=False)
    return tmp_path / "home"


@contextmanager
def listed(state: str = "ready", model: str = MODEL, **facts: Any) -> Iterator[StubServer]:
    """A stub with a run file, whose model is in this state."""
    routes: dict[str, Answer | Callable[[Request], Answer]] = {
        "/readyz": as_json({"status": "ready", "models": {model: state}}),
        "/v1/models": as_json({"data": []}),
        CHAT: streamed(*chat_events("from the server")),
    }
    usual: dict[str, Any] = {"version": __version__, "started": 1.0, "load_on_use": "catalog"}
    with stub_server(routes) as stub, published(LocalServer(stub.url, os.getpid(), None, **usual | facts)):
        yield stub


def found(*models: str, key_file: Path | None = None) -> str | None:
    server = running_server(models or (MODEL,), key_file)
    return None if server is None else server.url


def test_the_holder_is_taken_else_the_newest() -> None:
    with listed("unloaded", started=1.0), listed("unloaded", started=3.0) as newest, ExitStack() as stack:
        assert found() == newest.url
        holder = stack.enter_context(listed(started=2.0))
        assert found() == holder.url
        newer = stack.enter_context(listed(started=4.0))
        assert found() == newer.url


@pytest.mark.parametrize(
    ("state", "facts", "models"),
    [
        ("ready", {"version": "0.0.1"}, [MODEL]),
        ("ready", {"version": ""}, [MODEL]),
        ("failed: no memory", {}, [MODEL]),
        ("ready", {"file_models": (MODEL,)}, [MODEL]),
        ("ready", {"load_on_use": "configured"}, [MODEL, "hibari-6m"]),
        ("ready", {}, ["./model.gguf"]),
        ("ready", {}, ["hub:owner/repository"]),
        ("ready", {"has_api_keys": True}, [MODEL]),
    ],
)
def test_a_server_that_cannot_compute_is_not_taken(state: str, facts: dict[str, Any], models: list[str]) -> None:
    with listed(state, **facts):
        assert found(*models) is None


def test_what_a_server_may_load_by_name() -> None:
    with listed("unloaded", load_on_use="configured") as server:
        assert found(MODEL.upper()) == server.url
    with listed("ready", model="x") as server:
        assert (found("hibari-6m"), found("hibari-6m", "hub:a/b")) == (server.url, None)
        with listed("ready", model="x", load_on_use="hub") as hub:
            assert found("hub:a/b") == hub.url


def test_a_server_that_is_not_ready_is_not_taken() -> None:
    with listed() as server:
        server.routes["/readyz"] = as_json({"status": "loading", "models": {MODEL: "ready"}}, 503)
        assert found() is None
        server.routes["/readyz"] = as_json(["something else"])
        assert found() is None


def test_a_server_with_keys_needs_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def models(request: Request) -> Answer:
        right = request.headers.get("authorization") == "Bearer the-right-key"
        return as_json({"data": []}) if right else failure(401, "wrong")

    (tmp_path / "keys").write_text("the-right-key\n")
    with listed(has_api_keys=True) as server:
        server.routes["/v1/models"] = models
        assert found(key_file=tmp_path / "keys") == server.url
        monkeypatch.setenv("ANTIPHON_API_KEY", "another-key")
        assert found() is None


def test_without_downloads_only_a_holder_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_OFFLINE", "1")
    with listed("unloaded"):
        assert found() is None
    with listed() as server:
        assert found() == server.url


def test_a_hung_server_delays_a_command_by_the_limit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        url = f"http://127.0.0.1:{hung.getsockname()[1]}"
        with published(LocalServer(url, os.getpid(), None, version=__version__, load_on_use="catalog")):
            assert found() is None


def test_a_server_that_has_ended_is_not_taken() -> None:
    gone = LocalServer("http://127.0.0.1:1", os.getpid(), None, version=__version__, load_on_use="catalog")
    with published(gone):
        assert found() is None


# -- commands -----------------------------------------------------------------------------------------------------


def test_run_uses_it_and_says_so(invoke: Invoke) -> None:
    with listed() as server:
        outcome = invoke("run", MODEL, "hi")
        assert outcome[:2] == (0, "from the server\n")
        assert outcome.err.startswith(f"answered by the server at {server.url}; {NOTE}")
        by_default = invoke("run", "Name a bird.")
        assert by_default.err.startswith(f"qwen2.5-coder-0.5b, the default, answered by the server at {server.url};")
        asked = [request.json() for request in server.requests if request.path == CHAT]
    assert [body["model"] for body in asked] == [MODEL, "qwen2.5-coder-0.5b"]


def test_chat_uses_it(invoke: Invoke) -> None:
    with listed() as server:
        outcome = invoke("chat", MODEL, stdin="hi\n")
        assert outcome[:2] == (0, "from the server\n") and server.url in outcome.err


@pytest.mark.parametrize(
    "options", [["--local"], ["--kv-memory", "16"], ["--offline"], ["--speculate", "smollm2-135m"]], ids=" ".join
)
def test_options_of_an_engine_keep_a_command_here(options: list[str], invoke: Invoke) -> None:
    """Its model is not on this machine, and no hub can be reached."""
    with listed() as server:
        outcome = invoke("run", MODEL, "hi", *options, "--offline")
        assert outcome.code == 1 and "smollm2-135m is not downloaded" in outcome.err
        assert server.requests == []


def test_a_key_file_without_a_server_is_an_error(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a-key-of-some-server\n")
    outcome = invoke("run", MODEL, "hi", "--api-key-file", str(tmp_path / "keys"))
    assert outcome.code == 2 and "no server that can compute this was found" in outcome.err


@pytest.mark.parametrize("status", [401, 404, 429, 503])
def test_a_server_that_does_not_begin_to_answer_is_replaced(
    status: int, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_OFFLINE", "1")
    with listed() as server:
        server.routes[CHAT] = failure(status, "not now")
        outcome = invoke("run", MODEL, "hi")
    assert outcome.code == 1 and "not now" in outcome.err
    assert "loading the model here" in outcome.err and "smollm2-135m is not downloaded" in outcome.err


def test_an_error_of_the_request_itself_is_the_answer(invoke: Invoke) -> None:
    with listed() as server:
        server.routes[CHAT] = failure(400, "no such thing")
        outcome = invoke("run", MODEL, "hi")
    assert outcome.code == 1 and outcome.err.endswith(f"antiphon: {server.url}: no such thing\n")


def test_a_server_that_breaks_off_is_an_error(invoke: Invoke) -> None:
    with listed() as server:
        server.routes[CHAT] = streamed(*chat_events("par", done=False)[:2])
        outcome = invoke("run", MODEL, "hi")
    assert outcome[:2] == (1, "par\n") and "ended the stream before the answer was complete" in outcome.err


# -- a conversation that continues here -----------------------------------------------------------------------------


class SaidModel:
    """Model that raises an error, or answers with the messages that it gets."""

    def __init__(self, name: str, error: ServerError | None = None) -> None:
        self.name = name
        self.error = error

    def answer(self, messages: Any, settings: Any) -> Any:
        if self.error is not None:
            raise self.error
        return self.name, list(messages)


def test_a_chat_goes_on_here_when_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(running, "note", notes.append)
    server = ServerAddress.parse("http://127.0.0.1:8000", is_found=True)
    remote = SaidModel("remote")
    loads: list[str] = []

    def load() -> Any:
        loads.append("once")
        return SaidModel("local")

    model = fallback.FallbackModel(server, remote, load)
    assert model.answer(["one"], {}) == ("remote", ["one"])
    remote.error = UnreachableError("refused")
    for number in (2, 3):
        assert model.answer([number], {}) == ("local", [number])
    assert loads == ["once"] and notes == [f"the server at {server.url} has ended; loading the model here"]

    remote.error = ServerError("the prompt is too long", 400)
    with pytest.raises(ServerError, match="too long"):
        FallbackModel(server, remote, load).answer([], {})
    remote.error = UnreachableError("refused")
    with pytest.raises(UnreachableError):
        FallbackModel(ServerAddress.parse(server.url), remote, load).answer([], {})
