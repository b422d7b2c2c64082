"""The engine is killed under streams: each client reads why at once, and the server gets ready again."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import httpx
import orjson
import pytest

from support.programs.server_process import ServerProcess, antiphon_server, num_open_files, num_threads
from support.server.serve_command import ServeCommand

MODEL = "tiny-chat"
#: Threads that pools start when they are needed.
MAX_POOL_THREADS = 40
NUM_STREAMS = 16
TOLD_SECONDS = 0.5
ENDLESS = {"model": MODEL, "prompt": "Once upon", "max_tokens": 4000, "ignore_eos": True, "stream": True}
QUESTION = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 16, "temperature": 0}


async def stream(client: httpx.AsyncClient, has_begun: asyncio.Event) -> tuple[list[bytes], float]:
    """The events of a stream to its end, and when the last came."""
    events: list[bytes] = []
    arrived = 0.0
    async with client.stream("POST", "/v1/completions", json=ENDLESS) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line:
                events.append(line.removeprefix("data: ").encode())
                arrived = time.monotonic()
                has_begun.set()
    return events, arrived


async def kill_under_streams(url: str, pid: int, on_refused: Callable[[], None] = lambda: None) -> tuple[float, float]:
    """Kill the engine once. Return the seconds until the last stream's end and until the server is ready again."""
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=httpx.Limits()) as client:
        begun = [asyncio.Event() for _ in range(NUM_STREAMS)]
        streams = [asyncio.create_task(stream(client, event)) for event in begun]
        whole = asyncio.create_task(client.post("/v1/completions", json={**ENDLESS, "stream": False, "n": 4}))
        for event in begun:
            await event.wait()
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        told = 0.0
        for events, arrived in await asyncio.gather(*streams):
            error = orjson.loads(events[-1])["error"]
            assert error["code"] == "engine_restarting" and "killed by SIGKILL" in error["message"]
            told = max(told, arrived - killed)
        answer = await whole
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "engine_restarting"
        assert answer.headers["retry-after"]
        return told, await ready_again(client, killed, on_refused)


async def ready_again(client: httpx.AsyncClient, killed: float, on_refused: Callable[[], None]) -> float:
    """Meanwhile `/readyz` names the cause and lists no model as ready, `/v1/models` neither, and `/livez` answers."""
    has_refused = False
    while (ready := await client.get("/readyz")).status_code != 200:
        told = ready.json()
        assert told["status"] == "restarting" and "SIGKILL" in told["cause"] and told["models"] == {MODEL: "loading"}
        assert (await client.get("/livez")).status_code == 200
        cards = (await client.get("/v1/models")).json()["data"]
        refused = await client.post("/v1/completions", json=QUESTION)
        if refused.status_code == 503:  # still restarting
            has_refused = True
            on_refused()
            assert refused.json()["error"]["code"] == "engine_restarting"
            assert "ready" not in {card["state"] for card in cards}
        assert time.monotonic() - killed < 120
        await asyncio.sleep(0.05)
    assert has_refused and ready.json()["models"] == {MODEL: "ready"}
    return time.monotonic() - killed


async def answer(url: str) -> str:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        text: str = (await client.post("/v1/completions", json=QUESTION)).json()["choices"][0]["text"]
        return text


#: Run by a fork before it becomes an engine process: it writes its process id into a folder and waits for a file there.
HELD = """
import os, pathlib, time
folder = pathlib.Path(FOLDER)
(folder / "new").write_text(str(os.getpid()))
(folder / "new").rename(folder / "pid")
while not (folder / "go").exists():
    time.sleep(0.01)
"""


def test_a_kill(chat_folder: Path, tmp_path: Path) -> None:
    """The next engine process starts when the server has refused a request."""
    before = HELD.replace("FOLDER", repr(str(tmp_path)))
    go = tmp_path / "go"
    go.touch()
    server = ServeCommand(str(chat_folder), "--port", "0", "--kv-memory", "64", before_engine=before)

    async def main() -> None:
        wanted = await answer(server.url())
        go.unlink()
        await kill_under_streams(server.url(), int((tmp_path / "pid").read_text()), go.touch)
        assert await answer(server.url()) == wanted

    try:
        server.wait_until_ready()
        asyncio.run(main())
    finally:
        server.process.terminate()
        assert server.wait_for_end() == 0


@pytest.mark.alone
@pytest.mark.soak
def test_kills_in_a_row(chat_folder: Path, tmp_path: Path) -> None:
    """Every stream ends within half a second, and the server's files and threads do not grow."""

    async def main(server: ServerProcess) -> None:
        wanted = await answer(server.url)
        held: list[tuple[int, int]] = []  # files and threads of the server
        seconds = []
        for _ in range(20):
            told, ready = await kill_under_streams(server.url, server.engine_pid())
            assert told < TOLD_SECONDS
            seconds.append(ready)
            assert await answer(server.url) == wanted
            held.append((num_open_files(server.pid), num_threads(server.pid)))
        files, threads = zip(*held, strict=True)
        assert max(files) <= files[0] + 2, held
        assert max(threads) <= threads[0] + MAX_POOL_THREADS, held
        assert max(threads[10:]) <= max(threads[:10]) + 2, held  # the pools are full by then
        print(f"ready after {median(seconds):.2f} s in the median, {max(seconds):.2f} s at most: {seconds}")

    with antiphon_server(str(chat_folder), "--kv-memory", "64", "--files-dir", str(tmp_path / "files")) as running:
        asyncio.run(main(running))
