"""An engine process that dies, breaks, hangs or is orphaned: everybody is told why, and it comes back."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from antiphon.errors import EngineError, UnsupportedError
from antiphon.runtime.calls.tasks import EmbedInputs
from antiphon.runtime.process.client import EngineClient, EngineState
from antiphon.runtime.process.engine_process import EngineProcess
from antiphon.runtime.process.messages import LoadModel
from antiphon.runtime.process.restart_policy import RestartPolicy
from support.engine.engine_client import (
    BEGUN,
    DEADLY,
    EXIT,
    GO,
    HANG,
    HANG_HARD,
    LOST,
    OPTIONS,
    RAISE,
    SLOW,
    FaultyClient,
    answers,
    call,
    is_alive,
    until_state,
)
from support.engine.forked_engine import ForkedClient
from support.models.tiny_model import write_folder
from support.programs.forks import ENGINE_MODULES, template
from support.waiting import wait_until, wait_until_async


def test_kill_under_many_streams(tiny_llama: Path) -> None:
    async def main() -> None:
        client = ForkedClient(OPTIONS)
        await client.start()
        await client.load("tiny", str(tiny_llama))
        [before] = await answers(client, call([4, 2], max_tokens=30))
        streams = [client.generate(call([index, 1], max_tokens=4000, ignore_eos=True)) for index in range(16)]
        for stream in streams:
            await anext(stream)
        pid = client.pid
        assert pid is not None

        async def told(stream: object) -> None:
            with pytest.raises(EngineError, match="the engine process died: killed by SIGKILL"):
                async for _ in stream:  # type: ignore[attr-defined]
                    pass

        waits = [asyncio.create_task(told(stream)) for stream in streams]
        os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*waits)
        assert client.state is EngineState.RESTARTING and client.cause == "killed by SIGKILL"
        with pytest.raises(EngineError, match="restarting: killed by SIGKILL"):
            client.generate(call([1]))
        with pytest.raises(EngineError, match="restarting"):
            await client.embed(EmbedInputs("e", "tiny", [[1]]))
        with pytest.raises(EngineError, match="restarting"):
            await client.figures()
        assert set(client.models) == {"tiny"}
        loaded = await client.load("tiny", str(tiny_llama))  # waits for the restart
        assert client.state is EngineState.READY and client.cause is None
        assert client.models["tiny"] is loaded and client.pid != pid and client.restarts == 1
        [after] = await answers(client, call([4, 2], max_tokens=30))
        assert after.text == before.text
        for stream in streams:
            stream.close()
        await client.close()

    asyncio.run(main())


@pytest.mark.long("a real engine process is started")
def test_starts_that_fail_for_too_long_are_given_up(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first restart succeeds, however often; an executable that is gone is tried for a while."""

    async def main() -> None:
        policy = RestartPolicy(first_delay=0.01, give_up_seconds=0.05, min_failed_starts=4)
        client = EngineClient(OPTIONS, restarts=policy)
        await client.start()
        await client.load("tiny", str(tiny_llama))
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        failure = await asyncio.wait_for(client.wait_for_failure(), 60)
        assert re.search(r"cannot be started: .*/nowhere/python.* \(\d+ times in a row\)", str(failure))
        assert client.state is EngineState.FAILED and client.pid is None and client.restarts >= 4
        assert not client.models
        with pytest.raises(EngineError, match="failed: it cannot be started"):
            client.generate(call([1]))
        with pytest.raises(EngineError, match="failed: it cannot be started"):
            await client.load("tiny", str(tiny_llama))
        await client.close()

    asyncio.run(main())


def test_a_model_that_kills_each_process_is_given_up_and_others_come_back(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = write_folder(tmp_path / "other")

    async def main() -> None:
        client = FaultyClient(OPTIONS, restarts=RestartPolicy(first_delay=0.01))
        lost: list[str] = []
        client.on_lost = lambda name, error: lost.append(f"{name}: {error}")
        await client.start()
        await client.load("deadly", str(deadly))
        await client.load("tiny", str(tiny_llama))
        (deadly / DEADLY).touch()
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        await until_state(client, EngineState.RESTARTING)
        await until_state(client, EngineState.READY)
        assert set(client.models) == {"tiny"} and client.restarts == 4
        assert lost == ["deadly: the engine process died each time it loaded it"]
        [answer] = await answers(client, call([4, 2], max_tokens=10, ignore_eos=True))
        assert len(answer.token_ids) == 10
        await client.close()

    asyncio.run(main())


def test_a_death_during_a_restart_loses_no_model(tmp_path: Path) -> None:
    slow = write_folder(tmp_path / SLOW)
    (slow / GO).touch()

    async def main() -> None:
        client = FaultyClient(OPTIONS)
        await client.start()
        await client.load("tiny", str(slow))
        (slow / GO).unlink()  # it is not loaded again before that
        for _ in range(2):
            assert client.pid is not None
            (slow / BEGUN).unlink()
            os.kill(client.pid, signal.SIGKILL)
            await wait_until_async((slow / BEGUN).exists, "a new process to load the model")
            assert client.state is EngineState.RESTARTING
        (slow / GO).touch()
        await until_state(client, EngineState.READY)
        assert set(client.models) == {"tiny"} and client.restarts == 2
        [answer] = await answers(client, call([4, 2], max_tokens=10, ignore_eos=True))
        assert len(answer.token_ids) == 10
        await client.close()

    asyncio.run(main())


@pytest.mark.slow
def test_the_cause_of_every_death_arrives(tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that breaks, a lost device, a process that leaves, steps that hang, one holding the interpreter."""
    causes = {
        RAISE: "RuntimeError: the kernel is on fire",
        LOST: "DeviceError: cuda:0 failed: an illegal memory access",
        EXIT: "exit status 7: no more memory of any kind",
        HANG: r"a step ran for \d\.\d s, longer than the watchdog's 2.5 s",
        HANG_HARD: r"no sign of life for \d\.\d s, longer than the watchdog's 2.5 s",
    }

    async def main() -> None:
        client = FaultyClient(OPTIONS, watchdog_seconds=2.5, restarts=RestartPolicy(first_delay=0.01))
        await client.start()
        await client.load("tiny", str(tiny_llama))
        [wanted] = await answers(client, call([4, 2], max_tokens=10))
        for first, cause in causes.items():
            innocent = client.generate(call([4, 2], max_tokens=4000, ignore_eos=True))
            await anext(innocent)
            guilty = client.generate(call([first], max_tokens=5))
            for stream in (guilty, innocent):
                with pytest.raises(EngineError, match=f"the engine process died: .*{cause}"):
                    async with asyncio.timeout(120):
                        async for _ in stream:
                            pass
            await until_state(client, EngineState.READY)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGSTOP)
        stream = client.generate(call([4, 2]))
        with pytest.raises(EngineError, match="no sign of life"):
            async with asyncio.timeout(120):
                await stream.accepted()
        await until_state(client, EngineState.READY)
        assert client.restarts == len(causes) + 1
        [found] = await answers(client, call([4, 2], max_tokens=10))
        assert found.text == wanted.text
        await client.close()

    asyncio.run(main())


def test_streams_go_on_while_a_model_loads(tiny_llama: Path, tmp_path: Path) -> None:
    slow = write_folder(tmp_path / SLOW)

    async def main() -> None:
        client = FaultyClient(OPTIONS)
        await client.start()
        await client.load("tiny", str(tiny_llama))
        load = asyncio.create_task(client.load("second", str(slow)))
        await wait_until_async((slow / BEGUN).exists, "the engine to load the model")
        for _ in range(3):
            [answer] = await answers(client, call([1, 2], max_tokens=20, ignore_eos=True))
            assert len(answer.token_ids) == 20
        assert not load.done()
        (slow / GO).touch()
        assert (await load).name == "second"
        # A model that a death takes away while it is being loaded is not loaded again.
        await client.unload("second")
        (slow / GO).unlink()
        (slow / BEGUN).unlink()
        load = asyncio.create_task(client.load("second", str(slow)))
        await wait_until_async((slow / BEGUN).exists, "the engine to load the model again")
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="killed by SIGKILL"):
            await load
        await until_state(client, EngineState.READY)
        assert set(client.models) == {"tiny"}
        await client.close()

    asyncio.run(main())


PARENT = f"""
import asyncio, os, signal, sys
sys.path.append({str(Path(__file__).parents[2])!r})
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.calls.tasks import Generate
from antiphon.runtime.process.client import EngineClient
from support.engine.engine_client import FAULTS, HANG_HARD, OPTIONS
from support.engine.forked_engine import use_template

use_template(3, FAULTS)

async def main():
    working, stuck = EngineClient(OPTIONS), EngineClient(OPTIONS)
    for client in (working, stuck):
        await client.start()
        await client.load("tiny", sys.argv[1])
    params = SamplingParams(max_tokens=4000, ignore_eos=True)
    await anext(working.generate(Generate("a", "tiny", [4, 2], params)))
    stuck.generate(Generate("b", "tiny", [HANG_HARD, 2], params))
    while "stuck" not in stuck._process._tail:
        await asyncio.sleep(0.01)
    print(working.pid, stuck.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the end of a pipe")
def test_the_engine_goes_with_its_parent(tiny_llama: Path) -> None:
    """An engine process that works, and one whose interpreter is stuck."""
    source = template(*ENGINE_MODULES)
    with source.other_socket() as engines:
        ended = source.run(PARENT, [str(tiny_llama)], more=[engines])
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    pids = [int(word) for word in ended.stdout.split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_alive, pids)), "the engine processes to end after their parent")


def test_devices_are_reported_and_a_restart_keeps_them(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[LoadModel] = []

    def note(process: EngineProcess, message: object) -> None:
        if isinstance(message, LoadModel):
            sent.append(message)
        send(process, message)  # type: ignore[arg-type]

    send = EngineProcess.send
    monkeypatch.setattr(EngineProcess, "send", note)

    async def main() -> None:
        client = ForkedClient({**OPTIONS, "device": "cpu"}, restarts=RestartPolicy(first_delay=0.01))
        await client.start()
        [cpu] = client.devices
        assert (cpu.name, cpu.kv_bytes) == ("cpu", 8 << 20) and 0 < cpu.budget_bytes < cpu.total_bytes
        loaded = await client.load("tiny", str(tiny_llama), device="cpu")
        assert loaded.device == "cpu" and client.devices.name_of(None) == "cpu"
        with pytest.raises(UnsupportedError, match=r"cuda:900|CUDA|NVIDIA"):
            await client.load("other", str(tiny_llama), device="cuda:900")
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        await until_state(client, EngineState.RESTARTING)
        await until_state(client, EngineState.READY)
        assert [(load.name, load.device) for load in sent] == [("tiny", "cpu"), ("other", "cuda:900"), ("tiny", "cpu")]
        await client.close()

    asyncio.run(main())
