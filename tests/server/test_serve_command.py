"""`antiphon serve` in a process of its own: quick to listen, honest while it loads, graceful when told to stop."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from support.programs.command_line import PROGRAM
from support.programs.forks import ENGINE_MODULES, template
from support.programs.server_process import ServerProcess, started_server
from support.programs.terminal import Terminal
from support.server.serve_command import ServeCommand
from support.waiting import wait_until


@pytest.fixture
def command(chat_folder: Path, encoder_folder: Path, tmp_path: Path) -> Iterator[ServeCommand]:
    """A server whose engine starts when there is a file `go` in the test's folder."""
    arguments = [str(chat_folder), str(encoder_folder), "--port", "0", "--kv-memory", "16", "--grace", "120"]
    waiting = f"import os, time\nwhile not os.path.exists('{tmp_path}/go'): time.sleep(0.01)"
    made = ServeCommand(*arguments, before_engine=waiting)
    yield made
    if made.process.poll() is None:
        made.process.kill()
    made.process.wait()


@pytest.mark.long("a server starts, loads a model, answers and drains")
def test_from_start_to_drained_end(command: ServeCommand, tmp_path: Path) -> None:
    url = command.url()
    assert httpx.get(url + "/livez").status_code == 200
    early = httpx.get(url + "/readyz")
    assert early.status_code == 503 and early.json()["status"] in ("starting", "loading")
    answer = httpx.post(url + "/v1/completions", json={"model": "tiny-chat", "prompt": "a"})
    assert answer.status_code == 503 and "retry-after" in answer.headers
    (tmp_path / "go").touch()
    command.wait_until_ready()

    body = {"model": "default-chat", "prompt": "hello", "max_tokens": 3000, "ignore_eos": True}
    with httpx.stream("POST", url + "/v1/completions", json={**body, "stream": True}, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        command.process.send_signal(signal.SIGTERM)
        while (status := httpx.get(url + "/readyz").json()["status"]) != "draining":
            assert status == "ready"
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=60)
        with pytest.raises(openai.InternalServerError, match="shutting down") as refused:
            client.completions.create(model="default-chat", prompt="hello")
        assert refused.value.status_code == 503 and refused.value.code == "shutting_down"
        assert int(refused.value.response.headers["retry-after"]) >= 1
        *_, last, end = [line for line in lines if line]
    assert '"finish_reason":"length"' in last and end == "data: [DONE]"
    assert command.wait_for_end() == 0
    text = command.text()
    assert re.search(r"tiny-chat +weights +\d+\.\d\d +\d\.\d\n", text)
    assert re.search(r"memory: weights 0\.\d MB \+ KV cache 16 MB = 16 MB of [\d,]+ MB\n", text)
    assert re.search(r"server +listening +\d+\.\d\d\n", text) and re.search(r"server +ready +\d+\.\d\d\n", text)
    assert f"API: {url}/v1" in text
    assert "Traceback" not in text


@pytest.mark.long("its imports are tested, so it is started by an interpreter of its own")
def test_a_server_that_has_loaded_no_model_has_imported_no_torch(chat_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "serve", str(chat_folder), "--no-preload"]
    with started_server([*command, "--port", "0", "--files-dir", str(tmp_path / "files")], None, "/livez") as server:
        assert "libtorch" not in Path(f"/proc/{server.pid}/maps").read_text()


@pytest.mark.slow
def test_over_tls_with_a_file_of_settings_and_cut_off_at_the_end_of_the_grace(
    chat_folder: Path, tmp_path: Path
) -> None:
    """Also: what is not done when the grace is over is told so, and the exit code is 0 all the same."""
    pair = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *pair, *name]
    subprocess.run(made, check=True, capture_output=True)
    settings = f"""
        [server]
        port = 0
        grace = 0.5
        tls_cert = "{tmp_path}/cert.pem"
        tls_key = "{tmp_path}/key.pem"
        [memory]
        kv_memory = 16
        [models]
        models = ["{chat_folder}"]
    """
    (tmp_path / "antiphon.toml").write_text(settings)
    command = ServeCommand("--config", str(tmp_path / "antiphon.toml"))
    try:
        url = command.url()
        assert url.startswith("https://")
        trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        with httpx.Client(base_url=url, verify=trusted, timeout=60) as client:
            wait_until(lambda: client.get("/readyz").is_success, "the server to be ready", seen=command.text)
            with pytest.raises(httpx.HTTPError):
                httpx.get(url + "/livez")  # nobody vouches for the certificate
            body = {"model": "default-chat", "prompt": "a", "max_tokens": 4000, "n": 8, "ignore_eos": True}
            with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
                lines = answer.iter_lines()
                assert next(lines).startswith("data: ")
                command.process.send_signal(signal.SIGTERM)
                rest = [line for line in lines if line]
        assert '"code":"shutting_down"' in rest[-1]
        assert command.wait_for_end() == 0
    finally:
        if command.process.poll() is None:
            command.process.kill()
        command.process.wait()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smollm2-135n"], "did you mean smollm2-135m"),
        (["/nowhere/model.gguf"], "there is no model at /nowhere/model.gguf"),
        (["smollm2-135m", "smollm2-135m"], "two models would be called 'smollm2-135m'"),
        (["smollm2-135m", "--api-key-file", "nosuch"], "cannot read the API key file nosuch: no such file"),
        (["--memory", "50"], "no model fits in the memory budget of 50 MB"),
        (
            ["smollm2-135m", "--config", "/nowhere/antiphon.toml"],
            "cannot read the configuration /nowhere",
        ),
        (["smollm2-135m", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1 port 8000"),
    ],
    ids=["name", "path", "twice", "keys", "memory", "file", "address"],
)
def test_what_can_be_refused_at_once_is(arguments: list[str], message: str) -> None:
    command = ServeCommand(*arguments)
    assert command.wait_for_end() == (2 if "--config" in arguments else 1)  # a wrong setting is wrong usage
    assert message in command.text() and len(command.lines) <= 2


def test_a_model_that_does_not_fit_beside_one_that_does(chat_folder: Path) -> None:
    """The server runs and says that it is not ready: briefly in the table, with the reason below it."""
    command = ServeCommand(str(chat_folder), "smollm2-135m", "--port", "0", "--memory", "50", "--offline")
    try:
        url = command.url()
        told: dict[str, str] = {}

        def is_settled() -> bool:
            told.update(httpx.get(url + "/readyz", timeout=60).json())
            return told["status"] not in ("starting", "loading")

        wait_until(is_settled, "the models to be loaded or not", seen=command.text)
        assert (told["status"], told["cause"]) == ("failed", "failed to load: smollm2-135m")
        body = {"model": "tiny-chat", "prompt": "a", "max_tokens": 1}
        assert httpx.post(url + "/v1/completions", json=body, timeout=60).status_code == 200
        refused = httpx.post(url + "/v1/completions", json={**body, "model": "smollm2-135m"})
        assert refused.json()["error"]["code"] == "model_too_large"
    finally:
        command.process.send_signal(signal.SIGTERM)
        assert command.wait_for_end() == 0
    text = command.text()
    assert re.search(r"^smollm2-135m  failed$", text, re.MULTILINE)
    assert re.search(r"^server +not ready +\d+\.\d\d$", text, re.MULTILINE)
    assert "\nsmollm2-135m failed to load: model 'smollm2-135m' needs 98,362,432 bytes for its weights" in text


def test_models_found_too_large_while_they_load_end_the_server() -> None:
    """As if their sizes had not been known before."""
    before = "import antiphon.server.serving.setup.launch_plan as setup; setup.check_models_fit = lambda *_: None"
    command = ServeCommand("smollm2-135m", "--port", "0", "--memory", "50", "--offline", before=before)
    assert command.wait_for_end() == 1
    last = command.lines[-1]
    assert last.startswith("antiphon: model 'smollm2-135m' needs") and "the memory budget is 52,428,800 bytes" in last
    assert "Traceback" not in command.text()


def test_an_engine_that_cannot_start_ends_the_server(chat_folder: Path) -> None:
    before = "import sys; sys.executable = '/nowhere/python'"
    command = ServeCommand(str(chat_folder), "--port", "0", before=before, starts_engine=True)
    assert command.wait_for_end() == 1
    last = command.lines[-1]
    assert last.startswith("antiphon: the engine process cannot be started:") and "/nowhere/python" in last
    assert "Traceback" not in command.text()


@pytest.mark.long("a real engine process is started")
def test_an_engine_that_cannot_start_again_ends_the_server(
    chat_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a supervisor such as systemd acts, which gets its messages. The time in which it is tried is short."""
    systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    systemd.bind(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ -e {tmp_path}/gone ] && exit 3\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    before = (
        f"import sys, functools; sys.executable = {str(python)!r}; import antiphon.runtime.process.client as client; "
        "client.RestartPolicy = functools.partial(client.RestartPolicy, first_delay=0.01, give_up_seconds=0.1)"
    )
    command = ServeCommand(str(chat_folder), "--port", "0", "--kv-memory", "16", before=before, starts_engine=True)
    command.wait_until_ready()
    messages = [systemd.recv(100) for _ in range(3)]
    systemd.close()
    assert sorted(messages) == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
    (tmp_path / "gone").touch()
    os.kill(ServerProcess(command.url(), command.process.pid).engine_pid(), signal.SIGKILL)
    assert command.wait_for_end() == 1
    assert re.match(r"antiphon: .*cannot be started: exit status 3 \(\d+ times in a row\)", command.lines[-1])


def test_log_lines_are_for_people_on_a_terminal(chat_folder: Path) -> None:
    arguments = ["serve", str(chat_folder), "--port", "0", "--kv-memory", "16"]
    with Terminal(template(*ENGINE_MODULES), PROGRAM, arguments) as terminal:
        found = re.search(r"http://[\d.]+:\d+", terminal.wait_for("; loading tiny-chat"))
        assert found is not None
        assert httpx.get(found[0] + "/v1/models", timeout=60).status_code == 200
        shown = terminal.wait_for("request_id=")
    line = shown.splitlines()[-1]
    assert re.fullmatch(r"\d\d:\d\d:\d\d GET /v1/models 200 \d\.\d\ds request_id=", line)
