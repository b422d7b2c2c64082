"""Files, templates, grammars and recordings that are made to block a server, while `/livez` is polled."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import httpx
import numpy as np
import pytest

from antiphon.errors import AntiphonError
from antiphon.weights.catalog.resolve import resolve
from support.server.livez import polled
from support.server.serve_command import ServeCommand

pytestmark = [pytest.mark.weights, pytest.mark.alone]

WHISPER, ADMIN = "whisper-tiny.en", "the-key-of-an-admin-of-this-server"
#: A server that does not stall answers in milliseconds.
LONGEST_SECONDS = 2.0
SENDERS = 4
LINK_SECONDS = 60
CHAIN_SECONDS = 11 * 3600


def chained_opus() -> bytes:
    """Eleven hours in eleven megabytes: an Ogg file of many links."""
    link = io.BytesIO()
    with av.open(link, "w", format="ogg") as output:
        track = output.add_stream("libopus", rate=48_000, layout="mono", options={"frame_duration": "60"})
        track.bit_rate = 6000
        for second in range(LINK_SECONDS):
            silence = np.zeros((1, 48_000), np.float32)
            frame = av.AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 48_000, second * 48_000, Fraction(1, 48_000)
            output.mux(track.encode(frame))
        output.mux(track.encode(None))
    return link.getvalue() * (CHAIN_SECONDS // LINK_SECONDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, chat_folder: Path) -> Path:
    """The models `tiny-chat` and `hostile`, with a large template, an adapter that is a FIFO, and the admin's key."""
    root = tmp_path_factory.mktemp("hostile")
    shutil.copytree(chat_folder, root / "tiny-chat")
    hostile = shutil.copytree(chat_folder, root / "hostile")
    config = json.loads((hostile / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ 1 }}" * 10_000
    (hostile / "tokenizer_config.json").write_text(json.dumps(config))
    os.mkfifo(root / "adapter.gguf")
    (root / "key").write_text(ADMIN + "\n")
    return root


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServeCommand]:
    try:
        resolve(WHISPER, offline=True)
    except AntiphonError as error:
        pytest.skip(str(error))
    command = ServeCommand(
        str(folder / "tiny-chat"), str(folder / "hostile"), WHISPER, "--port", "0", "--offline", "--no-preload",
        "--kv-memory", "64", "--memory", "1024", "--admin-key-file", str(folder / "key"),
    )  # fmt: skip
    try:
        command.wait_until_ready()
        yield command
    finally:
        command.process.terminate()
        command.wait_for_end()


def fifo(client: httpx.Client, folder: Path) -> httpx.Response:
    body = {"model": "tiny-chat:own", "adapter": str(folder / "adapter.gguf")}
    return client.post("/admin/models/load", json=body, headers={"authorization": f"Bearer {ADMIN}"})


def template(client: httpx.Client, folder: Path) -> httpx.Response:
    body = {"model": "hostile", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    return client.post("/v1/chat/completions", json=body)


def grammar(client: httpx.Client, folder: Path) -> httpx.Response:
    body = {"model": "tiny-chat", "prompt": "a", "max_tokens": 9, "logit_bias": {"a": 100}}
    return client.post("/v1/completions", json={**body, "grammar": "root ::= " + '"a"? ' * 900})


def repetitions(client: httpx.Client, folder: Path) -> httpx.Response:
    body = {"model": "tiny-chat", "prompt": "a", "grammar": 'root ::= "a"' + "{2000}" * 9_000}
    return client.post("/v1/completions", json=body)


def recording(client: httpx.Client, folder: Path) -> httpx.Response:
    file = folder / "chained.ogg"
    if not file.exists():
        file.write_bytes(chained_opus())
    form = {"model": WHISPER}
    return client.post("/v1/audio/transcriptions", data=form, files={"file": ("a.ogg", file.read_bytes())})


#: The attack, and what the error says.
ATTACKS: dict[str, tuple[Callable[[httpx.Client, Path], httpx.Response], str]] = {
    "FIFO": (fifo, "it is a FIFO, not a regular file"),
    "template": (template, "maximum context length"),
    "grammar": (grammar, "too complex to follow"),
    "repetitions": (repetitions, "expands to 4,000,000 elements"),
    "recording": (recording, "the sound is longer than the 14400 s that are taken"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_server_answers_others_meanwhile(server: ServeCommand, folder: Path, name: str) -> None:
    attack, message = ATTACKS[name]
    with httpx.Client(base_url=server.url(), timeout=300) as client:
        attack(client, folder)  # what is loaded or made on first use is there
        with polled(server.url()) as livez, ThreadPoolExecutor(SENDERS) as pool:
            answers = list(pool.map(lambda _: attack(client, folder), range(SENDERS)))
        good = client.post("/v1/completions", json={"model": "tiny-chat", "prompt": "hello", "max_tokens": 2})
    for answer in answers:
        assert (answer.status_code, message in answer.text) == (400, True), answer.text[:500]
    assert good.status_code == 200
    print(f"{name}: longest silence of /livez {max(livez):.3f} s, {len(livez)} polls")
    assert max(livez) < LONGEST_SECONDS
