"""`antiphon serve --wyoming`: an address of its own, loopback by default, and its end with that of the server."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from pathlib import Path

import pytest
from wyoming.info import Describe, Info

from support.programs.command_line import invoker
from support.server.serve_command import ServeCommand
from support.server.wyoming_server import client_of, events_until
from support.waiting import wait_until


async def described_until_it_ends(command: ServeCommand, port: int) -> Info:
    """What is announced; then the server is told to end, and the open connection ends with it."""
    async with client_of(port) as client:
        await client.write_event(Describe().event())
        info = Info.from_event((await events_until(client, "info"))[-1])
        command.process.send_signal(signal.SIGTERM)
        assert await client.read_event() is None
        return info


@pytest.mark.slow
def test_from_start_to_end(chat_folder: Path) -> None:
    command = ServeCommand(
        str(chat_folder), "--port", "0", "--kv-memory", "16", "--host", "0.0.0.0", "--wyoming", "0",
        "--load-on-use", "configured", "--offline",
    )  # fmt: skip
    try:
        found: list[str] = []

        def is_listening() -> bool:
            found[:] = re.findall(r"Wyoming is listening on tcp://([\d.]+:\d+)", command.text())
            return bool(found)

        wait_until(is_listening, "the server to listen for Wyoming", seen=command.text)
        host, port = found[0].split(":")
        assert host == "127.0.0.1"  # although HTTP is on all interfaces
        info = asyncio.run(described_until_it_ends(command, int(port)))
        assert info.asr == [] and info.tts == []  # a chat model alone
        assert command.wait_for_end() == 0
        assert "Traceback" not in command.text() and "Wyoming has no keys" not in command.text()
    finally:
        if command.process.poll() is None:
            command.process.kill()
        command.process.wait()


def test_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        invoke = invoker(monkeypatch, capfdbinary)
        outcome = invoke("serve", "whisper-tiny.en", "--port", "0", "--wyoming", port, "--no-preload")
        assert outcome.code == 1 and f"port {port} of 127.0.0.1 is in use; try --wyoming " in outcome.err
        assert "Traceback" not in outcome.err
