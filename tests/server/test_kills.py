"""The engine is killed again and again under streams: each is told at once, and the server gets ready again."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import httpx
import orjson
import pytest

from antiphon.bench.process import ServerProcess, antiphon_server, num_open_files, num_threads

pytestmark = [pytest.mark.slow, pytest.mark.weights, pytest.mark.alone]

MODEL = "smollm2-135m"
#: Threads that pools start when they are needed.
MAX_POOL_THREADS = 40
NUM_STREAMS = 16
TOLD_SECONDS = 0.5
ENDLESS = {"model": MODEL, "prompt": "Once upon", "max_tokens": 4000, "ignore_eos": True, "stream": True}
QUESTION = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 16, "temperature": 0}


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    model_path(MODEL)
    files = tmp_path_factory.mktemp("kills") / "files"
    with antiphon_server(MODEL, "--kv-memory", "64", "--offline", "--files-dir", str(files)) as running:
        yield running


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


async def kill_under_streams(server: ServerProcess) -> float:
    """One kill; returns the seconds until the server was ready again."""
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=httpx.Limits()) as client:
        begun = [asyncio.Event() for _ in range(NUM_STREAMS)]
        streams = [asyncio.create_task(stream(client, event)) for event in begun]
        whole = asyncio.create_task(client.post("/v1/completions", json={**ENDLESS, "stream": False, "n": 4}))
        for event in begun:
            await event.wait()
        pid = server.engine_pid()
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        for events, arrived in await asyncio.gather(*streams):
            error = orjson.loads(events[-1])["error"]
            assert error["code"] == "engine_restarting" and "killed by SIGKILL" in error["message"]
            assert arrived - killed < TOLD_SECONDS
        assert time.monotonic() - killed < TOLD_SECONDS
        answer = await whole
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "engine_restarting"
        assert answer.headers["retry-after"]
        return await ready_again(client, killed)


async def ready_again(client: httpx.AsyncClient, killed: float) -> float:
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
            assert refused.json()["error"]["code"] == "engine_restarting"
            assert "ready" not in {card["state"] for card in cards}
        assert time.monotonic() - killed < 120
        await asyncio.sleep(0.05)
    assert has_refused and ready.json()["models"] == {MODEL: "ready"}
    return time.monotonic() - killed


async def answer(server: ServerProcess) -> str:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        text: str = (await client.post("/v1/completions", json=QUESTION)).json()["choices"][0]["text"]
        return text


def test_kills_in_a_row(server: ServerProcess, soak: bool) -> None:
    async def main() -> None:
        wanted = await answer(server)
        held: list[tuple[int, int]] = []  # files and threads of the server
        seconds = []
        for _ in range(20 if soak else 3):
            seconds.append(await kill_under_streams(server))
            assert await answer(server) == wanted
            held.append((num_open_files(server.pid), num_threads(server.pid)))
        files, threads = zip(*held, strict=True)
        assert max(files) <= files[0] + 2, held
        assert max(threads) <= threads[0] + MAX_POOL_THREADS, held
        assert not soak or max(threads[10:]) <= max(threads[:10]) + 2, held  # the pools are full by then
        print(f"ready after {median(seconds):.2f} s in the median, {max(seconds):.2f} s at most: {seconds}")

    asyncio.run(main())
