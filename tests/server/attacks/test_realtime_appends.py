"""Sessions that append as much sound as they can do not keep the server from answering `/livez`."""

from __future__ import annotations

import asyncio
import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from antiphon.errors import AntiphonError
from antiphon.weights.catalog.resolve import resolve
from support.server.livez import polled
from support.server.serve_command import ServeCommand

MODEL = "whisper-tiny.en"
NUM_SESSIONS = 12
#: Nearly the 300 s that a session may hold, and more than the rest of them.
FIRST_BYTES, SECOND_BYTES = 14 << 20, 1 << 20
UPDATE = {"type": "session.update", "session": {"type": "transcription"}}
#: The server alone takes 280 MB; it grew by 1,500 MB when it converted all sound in its event loop.
MEMORY_BYTES = 1200 << 20


@cache
def append(num_bytes: int) -> str:
    sound = base64.b64encode(bytes(num_bytes)).decode()
    return json.dumps({"type": "input_audio_buffer.append", "audio": sound})


async def append_twice(url: str) -> list[Any]:
    """Return the codes of the errors, and at last the kind of the event that answers what follows the sound."""
    messages = [*map(append, (FIRST_BYTES, SECOND_BYTES)), json.dumps(UPDATE)]
    seen: list[Any] = []
    address = url.replace("http", "ws", 1) + "/v1/realtime?intent=transcription"
    async with connect(address, max_size=None, ping_interval=None, open_timeout=60) as socket:
        for text in messages:
            await socket.send(text)
        while "session.updated" not in seen:
            event = json.loads(await asyncio.wait_for(socket.recv(), 300))
            if event["type"] == "error":
                seen.append(event["error"]["code"])
            elif event["type"] == "session.updated":
                seen.append(event["type"])
    return seen


def peak_memory(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    [peak] = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")]
    return peak


@pytest.mark.alone
@pytest.mark.weights
def test_livez_answers_beside_long_appends() -> None:
    """The first append of each session is accepted; the second one exceeds what a session may hold."""
    try:
        resolve(MODEL, offline=True)
    except AntiphonError as error:
        pytest.skip(str(error))

    async def attack(url: str) -> list[list[Any]]:
        return await asyncio.gather(*(append_twice(url) for _ in range(NUM_SESSIONS)))

    command = ServeCommand(MODEL, "--port", "0", "--offline")
    try:
        command.wait_until_ready()
        with polled(command.url()) as livez:
            seen = asyncio.run(attack(command.url()))
        memory = peak_memory(command.process.pid)
    finally:
        command.process.terminate()
        command.wait_for_end()
    print(f"longest silence of /livez: {max(livez) * 1000:.0f} ms over {len(livez)} polls; {memory >> 20} MiB")
    assert seen == [["input_audio_buffer_full", "session.updated"]] * NUM_SESSIONS
    assert max(livez) < 2.0
    assert memory < MEMORY_BYTES
    assert "internal error" not in command.text()
