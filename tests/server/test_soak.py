"""Clients of every kind at once: every answer is right, and everything that was lent comes back.

A new kind of client is a function with the decorator `kind` in `support/soak`.
"""

from __future__ import annotations

import asyncio
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from support.programs.server_process import ServerProcess, antiphon_server, num_open_files, num_threads, resident_bytes
from support.server.livez import polled
from support.soak import hostile_clients, sound_clients, text_clients
from support.soak.crowd import KINDS, Crowd
from support.soak.messages import request_bytes
from support.soak.sound_clients import SPEECH_MODEL, TRANSCRIPTION_MODEL
from support.soak.text_clients import CHAT_MODEL, EMBEDDING_MODEL, QUESTIONS, check_stream, question_body
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.weights]

CLIENTS = (text_clients, sound_clients, hostile_clients)  # each adds its kinds
MODELS = (CHAT_MODEL, EMBEDDING_MODEL, TRANSCRIPTION_MODEL, SPEECH_MODEL)
NUM_CLIENTS = 64
KEY = "the-key-of-the-soak"
HEADERS = {"authorization": f"Bearer {KEY}"}
#: Small, so that it is soon full and requests displace each other; resident memory then no longer grows with it.
KV_MEGABYTES = 64
#: Threads that start late, and a moment with more at once than any before, take memory that stays. A leak takes more
#: in every phase: this part of the memory at least.
LEAK = 0.01
PHASES = 4
#: Pools of threads grow to the number of tasks that they had at once.
THREAD_TOLERANCE = 16
WARM_UP_ROUNDS = 6
PHASE_SECONDS = 45.0
#: Seconds without a change of open files, once no client is connected.
SETTLED_SECONDS = 0.5
#: States in `/proc/net/tcp` of sockets that no client holds a connection to: TIME_WAIT and LISTEN.
UNCONNECTED = ("06", "0A")
#: Far from what is usual, for machines that do much else. A loop that is held up for seconds is found all the same.
LONGEST_LIVEZ_SECONDS = 3.0


@dataclass(frozen=True)
class Holdings:
    """What the server's two processes hold."""

    files: tuple[int, ...]
    threads: tuple[int, ...]
    resident: tuple[int, ...]

    @classmethod
    def of(cls, server: ServerProcess) -> Holdings:
        pids = server.pid, server.engine_pid()
        return cls(tuple(map(num_open_files, pids)), tuple(map(num_threads, pids)), tuple(map(resident_bytes, pids)))


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    for model in (*MODELS, "english-phonemes", "silero-vad"):
        model_path(model)  # it is here from now on
    keys = tmp_path_factory.mktemp("soak") / "keys"
    keys.write_text(KEY)
    options = ["--batch-invariant", "--kv-memory", str(KV_MEGABYTES), "--offline", "--header-timeout", "1"]
    options += ["--api-key-file", str(keys), "--files-dir", str(keys.with_name("files"))]
    with antiphon_server(*MODELS, *options) as running:
        yield running


def metric(text: str, name: str) -> float:
    """The sum over all labels; not a number if the engine was too busy to tell."""
    values = re.findall(rf"^antiphon:{name} (\S+)$", text, re.MULTILINE)
    return sum(map(float, values)) if values else math.nan


def metrics(server: ServerProcess) -> str:
    return httpx.get(f"{server.url}/metrics", headers=HEADERS, timeout=30).text


def wait_until_idle(server: ServerProcess) -> None:
    """Wait until nothing runs, nothing waits, and no block is owned."""
    names = (r"num_requests_running{.*}", r"num_requests_waiting{.*}", r'kv_cache_blocks{.*state="owned"}')
    left: list[float] = []

    def is_idle() -> bool:
        text = metrics(server)
        left[:] = [metric(text, name) for name in names]
        return left == [0, 0, 0]

    wait_until(is_idle, "nothing to run or wait and no block to be owned", seen=lambda: left)


async def ask_alone(crowd: Crowd) -> None:
    """Every question, one after the other."""
    for question in QUESTIONS:
        reader, writer = await crowd.connect()
        body = question_body(question)
        writer.write(request_bytes("/v1/completions", body, crowd.key))
        check_stream(crowd, question, await reader.read(-1))
        writer.close()


def warm_up(server: ServerProcess, crowd: Crowd) -> None:
    """Until all memory of the cache has been used once."""
    for number in range(WARM_UP_ROUNDS):
        asyncio.run(crowd.run(NUM_CLIENTS, 8.0, seed=100 + number))
        wait_until_idle(server)
        if metric(metrics(server), "kv_cache_lent_ratio") > 0.95:
            return


def num_connections(server: ServerProcess) -> int:
    """Return the number of connections to the server's port; one may outlive its request, or its client."""
    port = f":{urlsplit(server.url).port:04X}"
    sockets = [line.split() for line in Path(f"/proc/{server.pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(local.endswith(port) and state not in UNCONNECTED for _, local, _, state, *_ in sockets)


def settled_holdings(server: ServerProcess) -> Holdings:
    """Return what is held once no client is connected and open files stay the same for `SETTLED_SECONDS`."""
    wait_until(lambda: not num_connections(server), "every connection to end", seen=lambda: num_connections(server))
    deadline = time.monotonic() + 60
    held, since = Holdings.of(server), time.monotonic()
    while time.monotonic() - since < SETTLED_SECONDS:
        assert time.monotonic() < deadline, f"open files still change: {held.files}"
        time.sleep(0.2)
        now = Holdings.of(server)
        if now.files != held.files:
            since = time.monotonic()
        held = now
    return held


def check_holdings(before: Holdings, after: Holdings) -> None:
    """Compare files and threads, and not memory, of which a cache that fills takes more."""
    print(f"before {before}\nafter  {after}")
    for name, old, new in zip(("server", "engine"), before.files, after.files, strict=True):
        assert new <= old, f"{name}: {old} open files, then {new}"
    for name, old, new in zip(("server", "engine"), before.threads, after.threads, strict=True):
        assert new <= old + THREAD_TOLERANCE, f"{name}: {old} threads, then {new}"


def check_memory(held: list[Holdings]) -> None:
    """Reject memory that grows in every phase."""
    for index, name in enumerate(("server", "engine")):
        sizes = [holdings.resident[index] for holdings in held]
        told = f"{name}: {', '.join(f'{size / 1e6:.1f}' for size in sizes)} MB"
        print(told)
        assert min(new - old for old, new in pairwise(sizes)) <= LEAK * sizes[0], told


@pytest.fixture(scope="module")
def crowd(server: ServerProcess) -> Crowd:
    """It knows the right answers."""
    address = urlsplit(server.url)
    made = Crowd(str(address.hostname), int(address.port or 0), KEY)
    asyncio.run(ask_alone(made))
    asyncio.run(made.one_of_each())
    assert made.wrong == []
    return made


def check_end(server: ServerProcess, crowd: Crowd, engine: int) -> None:
    """Nothing is wrong, the engine process is the same, and questions have the same answers."""
    assert crowd.wrong == []
    assert set(crowd.counts) == set(KINDS)
    assert server.engine_pid() == engine, "the engine process was started again"
    assert httpx.get(f"{server.url}/readyz", timeout=30).status_code == 200
    asyncio.run(ask_alone(crowd))
    assert crowd.wrong == []


@pytest.mark.long("clients of every kind ask a real server one after another and at once")
def test_one_of_every_kind_at_once(server: ServerProcess, crowd: Crowd) -> None:
    engine = server.engine_pid()
    before = settled_holdings(server)
    asyncio.run(crowd.all_at_once())
    wait_until_idle(server)
    check_holdings(before, settled_holdings(server))
    check_end(server, crowd, engine)


@pytest.mark.alone
@pytest.mark.soak
def test_every_kind_of_client_for_minutes(server: ServerProcess, crowd: Crowd) -> None:
    engine = server.engine_pid()
    warm_up(server, crowd)
    held = [settled_holdings(server)]
    with polled(server.url) as livez:
        for phase in range(PHASES):
            asyncio.run(crowd.run(NUM_CLIENTS, PHASE_SECONDS, seed=2 + phase))
            wait_until_idle(server)
            held.append(settled_holdings(server))
    print(f"{crowd.counts.total()} requests: {dict(crowd.counts)}")
    print(f"/livez: median {statistics.median(livez):.3f} s, longest {max(livez):.3f} s of {len(livez)}")
    assert max(livez) < LONGEST_LIVEZ_SECONDS
    check_holdings(held[0], held[-1])
    check_memory(held)
    check_end(server, crowd, engine)
