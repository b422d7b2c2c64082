"""The asynchronous engine: the same answers, woken readers, and cancellation that reaches the engine."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from antiphon import AsyncEngine, Engine, SamplingParams
from antiphon.engine.request import FinishReason
from antiphon.errors import ContextLengthError, OverloadedError
from antiphon.runtime.loading.loading import LoadedModel
from support.waiting import wait_until_async

OPTIONS: dict[str, Any] = dict(kv_bytes=8 << 20, key_type="fp32", value_type="fp32")
LONG = SamplingParams(max_tokens=2000, ignore_eos=True)


async def until_free(engine: AsyncEngine) -> None:
    owned = lambda: engine.figures()[engine.models[0]]["blocks_owned"]  # noqa: E731
    await wait_until_async(lambda: asyncio.to_thread(lambda: not owned()), "all blocks to be free", seen=engine.figures)


def test_answers_equal_the_threaded_engine(tiny_loaded: LoadedModel) -> None:
    prompts = [[index, index + 1, index + 2] for index in range(12)]
    params = SamplingParams(max_tokens=10, temperature=0.8, seed=3, ignore_eos=True)
    with Engine(tiny_loaded, **OPTIONS) as engine:
        expected = [answer.token_ids for answer in engine.generate(prompts, params)]

    async def main() -> list[list[int]]:
        async with AsyncEngine(tiny_loaded, **OPTIONS) as engine:
            return [answer.token_ids for answer in await engine.generate(prompts, params)]

    assert asyncio.run(main()) == expected


def test_streams_interleave_and_end(tiny_loaded: LoadedModel) -> None:
    async def read(engine: AsyncEngine, prompt: list[int]) -> tuple[str, str]:
        stream = await engine.stream(prompt, SamplingParams(max_tokens=25, ignore_eos=True))
        text = "".join([delta.text async for delta in stream])
        return text, stream.completion().text

    async def main() -> None:
        async with AsyncEngine(tiny_loaded, **OPTIONS) as engine:
            pairs = await asyncio.gather(*(read(engine, [index, 7]) for index in range(20)))
            assert all(streamed == whole for streamed, whole in pairs)
            await until_free(engine)

    asyncio.run(main())


def test_cancelling_the_task_frees_the_blocks(tiny_loaded: LoadedModel) -> None:
    async def read_all(engine: AsyncEngine, started: asyncio.Event) -> None:
        stream = await engine.stream("hello", LONG)
        async for _ in stream:
            started.set()

    async def main() -> None:
        async with AsyncEngine(tiny_loaded, **OPTIONS) as engine:
            started = asyncio.Event()
            task = asyncio.create_task(read_all(engine, started))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until_free(engine)
            stream = await engine.stream("hello", LONG)
            async for _ in stream:
                break
            await stream.aclose()
            await until_free(engine)
            stream = await engine.stream("hello", LONG)
            stream.cancel()
            assert (await stream.wait()).finish_reason is FinishReason.CANCELLED

    asyncio.run(main())


def test_refusals_reach_the_caller(tiny_loaded: LoadedModel) -> None:
    async def main() -> None:
        async with AsyncEngine(tiny_loaded, **OPTIONS, max_running=1, max_waiting=1) as engine:
            with pytest.raises(ContextLengthError, match="5000"):
                await engine.stream([1] * 5000)
            with pytest.raises(OverloadedError):
                await engine.generate([[1], [2], [3]], LONG)
            answers = await engine.generate([[1]], SamplingParams(max_tokens=2, ignore_eos=True))
            assert len(answers[0].token_ids) == 2

    asyncio.run(main())


def test_a_caller_who_leaves_before_being_taken_in_does_no_harm(tiny_loaded: LoadedModel) -> None:
    async def main() -> None:
        async with AsyncEngine(tiny_loaded, **OPTIONS) as engine:
            running = await engine.stream([1, 2], LONG)
            for index in range(40):
                asked = asyncio.create_task(engine.stream([3, 4], LONG))
                await asyncio.sleep(index * 0.0002)
                asked.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    (await asked).close()
            running.close()
            await until_free(engine)
            [answer] = await engine.generate([[1, 2]], SamplingParams(max_tokens=5, ignore_eos=True))
            assert len(answer.token_ids) == 5

    asyncio.run(main())
