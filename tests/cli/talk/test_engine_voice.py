"""`EngineVoice` on a tiny model: prompts, answers and their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from antiphon.cli.talk.engine_voice import EngineVoice
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.voice.items import Item, Message, Role, TextPart
from antiphon.runtime.voice.services import Answer
from antiphon.runtime.voice.settings import VoiceSettings
from support.models.tiny_model import CONTEXT, write_folder
from support.waiting import wait_until_async

SETTINGS = VoiceSettings(instructions="Be brief.", max_tokens=8, temperature=0.0)


def message(number: int, text: str) -> Message:
    return Message(f"item_{number}", Role.USER if number % 2 == 0 else Role.ASSISTANT, (TextPart(text),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny")


def with_voice(folder: Path, work: Callable[[EngineVoice, AsyncEngine], Awaitable[None]]) -> None:
    async def run() -> None:
        loaded = load_model(str(folder), device="cpu")
        async with AsyncEngine(loaded, kv_bytes=32 << 20, device="cpu") as engine:
            await work(EngineVoice(engine, loaded, "none", "none"), engine)

    asyncio.run(run())


async def read(answer: Answer) -> str:
    text = ""
    while True:
        try:
            piece = await answer.__anext__()
        except StopAsyncIteration:
            return text
        text += getattr(piece, "text", "")


def test_an_answer_and_its_prefill(folder: Path) -> None:
    async def work(voice: EngineVoice, engine: AsyncEngine) -> None:
        items: list[Item] = [message(0, "hello there, how is it going on this fine day of the year?")]
        await voice.prefill(items, SETTINGS)
        answer = await voice.answer(items, SETTINGS)
        assert len(await read(answer)) > 0
        usage = answer.usage
        assert usage.is_cut and usage.output_tokens == 8 and usage.cached_tokens > usage.input_tokens // 2

    with_voice(folder, work)


def test_closing_aborts(folder: Path) -> None:
    async def work(voice: EngineVoice, engine: AsyncEngine) -> None:
        answer = await voice.answer([message(0, "hello")], VoiceSettings(max_tokens=4000))
        await answer.__anext__()
        answer.close()
        assert await read(answer) == ""
        await wait_until_async(lambda: not engine.figures()["tiny"]["running"], "the answer's end")

    with_voice(folder, work)


def test_the_oldest_turns_are_left_out_when_the_context_is_full(folder: Path) -> None:
    async def work(voice: EngineVoice, engine: AsyncEngine) -> None:
        items: list[Item] = [message(number, "hello " * 200) for number in range(21)]
        answer = await voice.answer(items, SETTINGS)
        await read(answer)
        assert CONTEXT * 3 // 4 < answer.usage.input_tokens <= CONTEXT - 8

    with_voice(folder, work)
