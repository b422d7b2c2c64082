"""openai's realtime connection."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeResponse
from voice_common import (
    BASE_URL,
    CHUNKS,
    INSTRUCTIONS,
    KEY,
    LONG,
    LONG_QUESTION,
    MODEL,
    SHORT,
    TIMEOUT,
    TOOL_QUESTION,
    TOOL_RESULT,
    TRANSCRIPTION,
    Report,
)

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Oslo"]}},
        "required": ["city"],
    },
}


class Conversation:
    def __init__(self, connection: AsyncRealtimeConnection, report: Report) -> None:
        self.connection = connection
        self.report = report
        self.text = ""
        self.sound = b""
        self.item_id = ""

    async def read(self) -> Any:
        event = await asyncio.wait_for(self.connection.recv(), TIMEOUT)
        self.report.saw(event.type)
        if event.type == "error":
            self.report.failed(event.error.code, event)
        elif event.type == "response.created":
            self.text, self.sound = "", b""
        elif event.type == "response.output_audio.delta":
            self.sound += base64.b64decode(event.delta)
            self.item_id = event.item_id
        elif event.type == "response.output_audio_transcript.delta":
            self.text += event.delta
        elif event.type == "conversation.item.input_audio_transcription.completed":
            self.report.heard += event.transcript
        return event

    async def until(self, kind: str) -> Any:
        while (event := await self.read()).type != kind:
            assert not self.report.errors, self.report.errors
        return event

    async def response(self) -> RealtimeResponse:
        response: RealtimeResponse = (await self.until("response.done")).response
        if self.sound:
            self.report.answered(self.text, self.sound)
        return response

    async def write(self, text: str) -> None:
        content: list[Any] = [{"type": "input_text", "text": text}]
        await self.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})


async def speak(talk: Conversation) -> None:
    audio: Any = {"input": {"transcription": {"model": TRANSCRIPTION}}, "output": {"voice": "marin"}}
    await talk.connection.session.update(
        session={
            "type": "realtime",
            "instructions": INSTRUCTIONS,
            "max_output_tokens": SHORT,
            "audio": audio,
        }
    )
    await talk.until("session.updated")
    for chunk in CHUNKS:
        await talk.connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())
    await talk.response()
    while not talk.report.heard:
        await talk.read()


async def call_a_tool(talk: Conversation) -> None:
    await talk.write(TOOL_QUESTION)
    tools: Any = [TOOL]
    await talk.connection.response.create(
        response={
            "tools": tools,
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "max_output_tokens": "inf",
        }
    )
    (call,) = [item for item in (await talk.response()).output or [] if item.type == "function_call"]
    assert call.name == TOOL["name"]
    talk.report.tool_arguments = json.loads(call.arguments)
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": TOOL_RESULT}
    await talk.connection.conversation.item.create(item=output)
    await talk.connection.response.create(response={"tools": tools, "tool_choice": "none"})
    await talk.response()


async def interrupt(talk: Conversation) -> None:
    await talk.write(LONG_QUESTION)
    await talk.connection.response.create(response={"max_output_tokens": LONG})
    await talk.until("response.output_audio.delta")
    await talk.connection.response.cancel()
    response = (await talk.until("response.done")).response
    talk.report.interrupted_status = response.status
    await talk.connection.conversation.item.truncate(item_id=talk.item_id, content_index=0, audio_end_ms=10)
    await talk.until("conversation.item.truncated")


async def main() -> None:
    report = Report()
    client = AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)
    async with client.realtime.connect(model=MODEL) as connection:
        talk = Conversation(connection, report)
        await talk.until("session.created")
        await speak(talk)
        await call_a_tool(talk)
        await interrupt(talk)
    report.print()


asyncio.run(main())
