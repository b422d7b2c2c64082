"""livekit-plugins-openai: the session of its realtime model, as its agents use it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
from livekit import rtc
from livekit.agents import llm
from livekit.plugins import openai
from openai.types.realtime import AudioTranscription
from voice_common import (
    BASE_URL,
    CHUNKS,
    INSTRUCTIONS,
    KEY,
    LONG,
    LONG_QUESTION,
    MODEL,
    RATE,
    SHORT,
    TIMEOUT,
    TOOL_QUESTION,
    TOOL_RESULT,
    TRANSCRIPTION,
    City,
    Report,
)

report = Report()
generations: asyncio.Queue[llm.GenerationCreatedEvent] = asyncio.Queue()
statuses: list[str] = []


@llm.function_tool
async def get_weather(city: City) -> str:
    """The weather of a city."""
    return TOOL_RESULT


WEATHER: llm.ToolChoice = {"type": "function", "function": {"name": "get_weather"}}


def take_raw(event: dict[str, Any]) -> None:
    if event["type"] == "error":
        report.failed(event["error"]["code"], event)
    elif event["type"] == "response.done":
        statuses.append(event["response"]["status"])
    report.saw(event["type"])


def take_transcript(event: llm.InputTranscriptionCompleted) -> None:
    if event.is_final:
        report.heard += event.transcript
        report.notify()


async def message_of(generation: llm.GenerationCreatedEvent) -> tuple[str, bytes]:
    """The text and the sound of a generation's messages."""
    text, sound = "", b""
    async with asyncio.timeout(TIMEOUT):
        async for message in generation.message_stream:
            text += "".join([piece async for piece in message.text_stream])
            sound += b"".join([bytes(frame.data) async for frame in message.audio_stream])
    return text, sound


async def add(session: Any, *items: Any) -> None:
    context = session.chat_ctx.copy()
    context.items.extend(items)
    await session.update_chat_ctx(context)


async def speak(session: Any) -> None:
    for chunk in CHUNKS:
        session.push_audio(rtc.AudioFrame(chunk, RATE, 1, len(chunk) // 2))
    report.answered(*await message_of(await asyncio.wait_for(generations.get(), TIMEOUT)))
    await report.until_seen("response.done")
    await report.until(lambda: bool(report.heard), "the transcript")


async def call_a_tool(session: Any) -> None:
    session.update_options(max_response_output_tokens="inf")
    await session.update_tools([get_weather])
    await add(session, llm.ChatMessage(role="user", content=[TOOL_QUESTION]))
    generation = await session.generate_reply(tool_choice=WEATHER)
    calls = [call async for call in generation.function_stream]
    await report.until_seen("response.done", 2)
    report.tool_arguments = json.loads(calls[0].arguments)
    output = llm.FunctionCallOutput(call_id=calls[0].call_id, name=calls[0].name, output=TOOL_RESULT, is_error=False)
    await add(session, output)
    session.update_options(max_response_output_tokens=SHORT)
    report.answered(*await message_of(await session.generate_reply(tool_choice="none")))
    await report.until_seen("response.done", 3)


async def interrupt(session: Any) -> None:
    session.update_options(max_response_output_tokens=LONG)
    await add(session, llm.ChatMessage(role="user", content=[LONG_QUESTION]))
    generation = await session.generate_reply(tool_choice="none")
    message = await anext(aiter(generation.message_stream))
    await anext(aiter(message.audio_stream))
    session.interrupt()
    await report.until_seen("response.done", 4)
    report.interrupted_status = statuses[-1]
    session.truncate(message_id=message.message_id, modalities=["audio"], audio_end_ms=10)
    await report.until_seen("conversation.item.truncated")


async def main() -> None:
    async with aiohttp.ClientSession() as http:
        model = openai.realtime.RealtimeModel(
            model=MODEL,
            base_url=BASE_URL,
            api_key=KEY,
            input_audio_transcription=AudioTranscription(model=TRANSCRIPTION),
            http_session=http,
        )
        session = model.session()
        session.on("openai_server_event_received", take_raw)
        session.on("input_audio_transcription_completed", take_transcript)
        session.on("generation_created", lambda event: event.user_initiated or generations.put_nowait(event))
        session.update_options(max_response_output_tokens=SHORT)
        await session.update_instructions(INSTRUCTIONS)
        await speak(session)
        await call_a_tool(session)
        await interrupt(session)
        await session.aclose()
        await model.aclose()
    report.print()


asyncio.run(main())
