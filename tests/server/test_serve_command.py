"""`antiphon serve` in a process of its own: quick to listen, honest while it loads, graceful when told to stop."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest


class Command:
    """The running command, its standard error read as it comes."""

    def __init__(self, *arguments: str) -> None:
        code = "from antiphon.cli.app import main; main()"
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    def text(self) -> str:
        return "".join(self.lines)

    def url(self) -> str:
        while not (found := re.search(r"http://[\d.]+:\d+", self.text())):
            assert self.process.poll() is None and time.monotonic() - self.started < 30, self.text()
            time.sleep(0.01)
        return found[0]

    def wait_until_ready(self) -> None:
        while httpx.get(self.url() + "/readyz").status_code != 200:
            assert time.monotonic() - self.started < 60, self.text()
            time.sleep(0.05)


@pytest.fixture
def command(chat_folder: Path, encoder_folder: Path) -> Iterator[Command]:
    made = Command(str(chat_folder), str(encoder_folder), "--port", "0", "--kv-memory", "16", "--grace", "20")
    yield made
    if made.process.poll() is None:
        made.process.kill()
    made.process.wait()


def test_from_start_to_drained_end(command: Command) -> None:
    url = command.url()
    listening = time.monotonic() - command.started
    assert httpx.get(url + "/livez").status_code == 200
    assert listening < 4, listening  # under 2 s on an idle machine
    early = httpx.get(url + "/readyz")
    assert early.status_code == 503 and early.json()["status"] in ("starting", "loading")
    answer = httpx.post(url + "/v1/completions", json={"model": "tiny-chat", "prompt": "a"})
    assert answer.status_code == 503 and "retry-after" in answer.headers
    command.wait_until_ready()

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)
    stream = client.completions.create(
        model="default-chat", prompt="hello", max_tokens=600, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    command.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with pytest.raises(openai.APIConnectionError):
        client.with_options(timeout=5).models.list()
    reasons = [chunk.choices[0].finish_reason for chunk in stream]
    assert reasons[-1] == "length"
    assert command.process.wait(20) == 0
    text = command.text()
    assert re.search(r"tiny-chat +weights +\d+\.\d\d +[\d,]{5,}", text)
    assert re.search(r"memory: weights 0 MB, keys and values 17 MB", text)
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smollm2-135n"], "did you mean smollm2-135m"),
        (["/nowhere/model.gguf"], "there is no model at /nowhere/model.gguf"),
        (["smollm2-135m", "smollm2-135m"], "two models would be called 'smollm2-135m'"),
        (["smollm2-135m", "--api-key-file", "/nowhere/keys"], "cannot read the API key file /nowhere/keys"),
        (["smollm2-135m", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1 port 8000"),
    ],
    ids=["name", "path", "twice", "keys", "address"],
)
def test_what_can_be_refused_at_once_is(arguments: list[str], message: str) -> None:
    command = Command(*arguments)
    assert command.process.wait(20) == 1
    command._reader.join(5)
    assert message in command.text() and len(command.lines) <= 2
