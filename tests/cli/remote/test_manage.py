"""`antiphon ps` and `antiphon stop` with real servers, and the admin tokens that they find."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from antiphon.cli.remote.manage import duration
from antiphon.server.serving.setup.run_file import LocalServer, local_servers, published
from support.models.tiny_model import write_folder
from support.programs.command_line import Invoke
from support.programs.forks import Fork
from support.server.serve_command import ServeCommand
from support.server.stub_server import as_json, failure, stub_server
from support.waiting import wait_until

TOKEN = "the-token-of-this-server"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def card(name: str = "m", **changed: object) -> dict[str, object]:
    usual = {
        "name": name,
        "aliases": ["default-chat"],
        "state": "ready",
        "task": "generate",
        "charged_bytes": 2_500_000,
    }
    return {**usual, "requests": 0, "last_use": None, "keep_alive": -1, "expires": None, "pinned": False, **changed}


def models(*cards: dict[str, object]) -> dict[str, object]:
    return {
        "models": list(cards),
        "catalog": [],
        "memory": {"budget_bytes": 9_000_000, "kv_bytes": 1, "weight_bytes": 2},
    }


# -- real servers -------------------------------------------------------------------------------------------------


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[Fork, str]]:
    """A server of its own process, with its URL."""
    command = ServeCommand(*arguments)
    try:
        yield command.process, command.url()
    finally:
        command.process.kill()
        command.wait_for_end()


@pytest.mark.slow
def test_two_servers_from_start_to_end(home: Path, tmp_path: Path, invoke: Invoke) -> None:
    """Listed and unloaded through their tokens; gone from the list after SIGTERM, and after SIGKILL."""
    first_model, second_model = (str(write_folder(tmp_path / name)) for name in ("tiny-first", "tiny-second"))
    options = ["--port", "0", "--kv-memory", "16", "--keep-alive", "1h"]
    with serving(first_model, *options) as (first, url), serving(second_model, *options) as (second, other_url):
        for address in (url, other_url):
            ready = partial(httpx.get, address + "/readyz")
            wait_until(lambda: ready().is_success, "the server to be ready", seen=lambda: ready().text)  # noqa: B023
        servers = local_servers()
        assert {(server.url, server.pid) for server in servers} == {(url, first.pid), (other_url, second.pid)}
        assert len({server.admin_token for server in servers}) == 2
        files = list((home / "run").iterdir())
        assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]
        assert stat.S_IMODE((home / "run").stat().st_mode) == 0o700

        for key in (None, "Bearer wrong-wrong-wrong", f"Bearer {next(s.admin_token for s in servers if s.url != url)}"):
            headers = {} if key is None else {"authorization": key}
            assert httpx.get(url + "/admin/models", headers=headers).status_code == 401
        token = next(server.admin_token for server in servers if server.url == url)
        right = {"authorization": f"Bearer {token}"}
        unload = {"url": url + "/admin/models/unload", "content": b'{"model": "tiny-first"}'}
        for wrong, status in (
            ({"host": "evil.example"}, 403),
            ({"origin": "https://evil.example"}, 403),
            ({"content-type": "text/plain"}, 415),
        ):
            sent = {"content-type": "application/json", **right, **wrong}
            assert httpx.post(**unload, headers=sent).status_code == status  # type: ignore[arg-type]
        assert httpx.get(url + "/admin/models", headers=right).json()["models"][0]["state"] == "ready"

        code, out, _ = invoke("ps")
        assert code == 0 and url in out and other_url in out
        assert re.search(r"^tiny-first +generate +ready +cpu +[\d.]+ MB +0 +\d+s +(59m \d+s|1h)$", out, re.MULTILINE)
        code, out, _ = invoke("ps", "--json", "--base-url", url.replace("127.0.0.1", "localhost") + "/v1")
        assert [one["name"] for one in json.loads(out)[0]["models"]] == ["tiny-first"]

        code, out, _ = invoke("stop", "tiny-second")
        assert code == 0 and re.fullmatch(r"tiny-second unloaded, \d+\.\d MB freed\n", out)
        assert invoke("stop", "tiny-second", "--base-url", other_url)[1] == "tiny-second was not loaded\n"
        code, _, err = invoke("stop", "tiny-second")
        assert code == 1 and "none of them holds 'tiny-second'" in err and url in err and other_url in err
        assert "no models loaded" in invoke("ps", "--base-url", other_url)[1]
        assert "unloaded" in invoke("ps", "--all", "--base-url", other_url)[1]
        assert "tiny-frist" in invoke("stop", "tiny-frist", "--base-url", url)[2]

        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
        assert [server.url for server in local_servers()] == [url] and len(list((home / "run").iterdir())) == 1
        first.kill()
        first.wait(60)
        assert len(list((home / "run").iterdir())) == 1
        code, _, err = invoke("ps")
        assert code == 1 and "you have no server running on this machine" in err
        assert list((home / "run").iterdir()) == []


def test_a_server_with_an_admin_key_file_wants_that_key(home: Path, tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "keys").write_text("an-admins-own-key\n")
    folder = str(write_folder(tmp_path / "tiny"))
    options = ["--port", "0", "--kv-memory", "16", "--no-preload", "--admin-key-file", str(tmp_path / "keys")]
    with serving(folder, *options) as (_, url):
        (server,) = local_servers()
        assert server.admin_token is None
        assert "give a key with --admin-key-file" in invoke("ps")[2]
        code, out, _ = invoke("ps", "--all", "--admin-key-file", str(tmp_path / "keys"))
        assert code == 0 and url in out and "tiny" in out
        (tmp_path / "wrong").write_text("not-that-key-at-all\n")
        assert "missing or wrong" in invoke("ps", "--admin-key-file", str(tmp_path / "wrong"))[2]


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc").exists(), reason="needs /proc as an unwritable home")
def test_a_home_that_cannot_be_written_does_not_stop_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", "/proc/nowhere")
    folder = str(write_folder(tmp_path / "tiny"))
    monkeypatch.setenv("ANTIPHON_FILES_DIR", "")  # the folder in the home
    command = ServeCommand(folder, "--port", "0", "--kv-memory", "16", "--no-preload")
    try:
        url = command.url()
        assert all("/proc/nowhere" in line for line in command.lines[:2])
        assert "files and batches are off" in command.lines[0]
        assert "not listed for `antiphon ps`" in command.lines[1]
        assert httpx.get(url + "/livez").status_code == 200
        assert httpx.get(url + "/admin/models").status_code == 401
    finally:
        command.process.kill()
        command.wait_for_end()


# -- the token goes nowhere else ----------------------------------------------------------------------------------


def test_the_token_is_sent_to_its_own_server_only(home: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    with stub_server({"/admin/models": as_json(models(card()))}) as own, stub_server({}) as other:
        other.routes["/admin/models"] = failure(401, "the admin key is missing or wrong")
        with published(LocalServer(own.url, os.getpid(), TOKEN)):
            for url in (own.url, own.url.replace("127.0.0.1", "localhost"), own.url + "/v1"):
                assert invoke("ps", "--base-url", url)[0] == 0
            assert {request.headers["authorization"] for request in own.requests} == {f"Bearer {TOKEN}"}
            own.requests.clear()
            for url in (other.url, own.url + "/proxy", own.url.replace("127.0.0.1", "127.0.0.2")):
                code, _, err = invoke("ps", "--base-url", url)
                assert code == 1 and err.startswith("antiphon: ")
            assert "give an admin key with --admin-key-file" in invoke("ps", "--base-url", other.url)[2]
            monkeypatch.setenv("ANTIPHON_BASE_URL", other.url)
            assert invoke("ps")[0] == 1
            for request in (*own.requests, *other.requests):
                assert "authorization" not in request.headers
            monkeypatch.setenv("ANTIPHON_ADMIN_KEY", "a-key-of-the-user")
            invoke("ps")
            assert other.requests[-1].headers["authorization"] == "Bearer a-key-of-the-user"


# -- what is printed ----------------------------------------------------------------------------------------------


def test_states_and_times(home: Path, invoke: Invoke) -> None:
    listed = models(
        card("busy", requests=2, keep_alive=300),
        card("pinned", pinned=True),
        card("broken", state="failed", error="no such tensor", task=None, charged_bytes=0),
        card("away", state="unloaded", charged_bytes=0),
    )
    with stub_server({"/admin/models": as_json(listed)}) as server:
        code, out, _ = invoke("ps", "--base-url", server.url)
    lines = out.splitlines()
    assert code == 0 and lines[0] == f"{server.url}  0 of 9 MB used"
    assert lines[1].split()[:2] == ["MODEL", "TASK"]
    assert re.fullmatch(r"busy +generate +ready +2\.5 MB +2 +5m after use", lines[2])
    assert re.fullmatch(r"pinned +generate +ready +2\.5 MB +0 +pinned", lines[3])
    assert lines[4].startswith("broken") and lines[5:] == ["broken: no such tensor"]


def test_one_of_several_servers_does_not_answer(home: Path, invoke: Invoke) -> None:
    with stub_server({"/admin/models": as_json(models(card()))}) as server:
        gone = LocalServer("http://127.0.0.1:1", os.getpid(), TOKEN)
        with published(gone), published(LocalServer(server.url, os.getpid(), TOKEN)):
            code, out, err = invoke("ps")
            assert code == 0 and "ready" in out and "127.0.0.1:1: Connection refused" in err
            server.routes["/admin/models/unload"] = as_json(card(state="unloaded", charged_bytes=0))
            assert invoke("stop", "default-chat")[:2] == (0, "m unloaded, 2.5 MB freed\n")


@pytest.mark.parametrize("name", ["m:latest", "default-chat:latest"])
def test_the_server_that_holds_a_model_is_found_by_a_tagged_name(home: Path, invoke: Invoke, name: str) -> None:
    """As the routes of the server take it."""
    with stub_server({}) as holder, stub_server({}) as other:
        holder.routes["/admin/models"] = as_json(models(card()))
        other.routes["/admin/models"] = as_json(models(card("another", aliases=[])))
        holder.routes["/admin/models/unload"] = as_json(card(state="unloaded", charged_bytes=0))
        with (
            published(LocalServer(holder.url, os.getpid(), TOKEN)),
            published(LocalServer(other.url, os.getpid(), TOKEN)),
        ):
            assert invoke("stop", name)[:2] == (0, "m unloaded, 2.5 MB freed\n")


def test_a_model_in_use_is_unloaded_by_force(home: Path, invoke: Invoke) -> None:
    def unload(request: object) -> object:
        is_forced = request.json()["force"]  # type: ignore[attr-defined]
        return as_json(card(state="unloaded")) if is_forced else failure(409, "model 'm' is used by 2 requests")

    with stub_server({"/admin/models": as_json(models(card())), "/admin/models/unload": unload}) as server:  # type: ignore[dict-item]
        code, _, err = invoke("stop", "m", "--base-url", server.url)
        assert code == 1 and "used by 2 requests; --force ends them" in err
        assert invoke("stop", "m", "--force", "--base-url", server.url)[0] == 0


@pytest.mark.parametrize("content", [[], {"models": 5}, {"data": []}])
def test_a_server_of_another_kind(content: object, home: Path, invoke: Invoke) -> None:
    with stub_server({"/admin/models": as_json(content)}) as server:
        assert "is not an Antiphon server" in invoke("ps", "--base-url", server.url)[2]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.6, "1m"), (61, "1m 1s"), (3600, "1h"), (3665, "1h 1m"), (90000, "1d 1h"), (-3, "0s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
