"""openai-agents: a `RealtimeSession`, which validates every event and calls the tool itself."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from agents.realtime.config import RealtimeSessionModelSettings
from agents.realtime.model_inputs import RealtimeModelSendInterrupt, RealtimeModelSendSessionUpdate
from voice_common import (
    CHUNKS,
    INSTRUCTIONS,
    KEY,
    LONG,
    LONG_QUESTION,
    MODEL,
    SHORT,
    SOCKET_URL,
    TOOL_QUESTION,
    TOOL_RESULT,
    City,
    Report,
)

report = Report()
running: list[RealtimeSession] = []
text: list[str] = []
sound: list[bytes] = []
statuses: list[str] = []


async def configure(**settings: Any) -> None:
    """Change the session, and wait until the server has."""
    before = report.kinds.count("session.updated")
    model_settings: RealtimeSessionModelSettings = settings  # type: ignore[assignment]
    await running[0].model.send_event(RealtimeModelSendSessionUpdate(session_settings=model_settings))
    await report.until_seen("session.updated", before + 1)


@function_tool
async def get_weather(city: City) -> str:
    """The weather of a city."""
    report.tool_arguments = {"city": city}
    # The answer to the tool's result is spoken.
    await configure(tool_choice="none", max_output_tokens=SHORT, tools=[get_weather])
    return TOOL_RESULT


def take_raw(event: dict[str, Any]) -> None:
    kind = event["type"]
    if kind == "response.output_audio_transcript.delta":
        text.append(event["delta"])
    elif kind == "conversation.item.input_audio_transcription.completed":
        report.heard += event["transcript"]
    elif kind == "response.done":
        statuses.append(event["response"]["status"])
        if sound:
            report.answered("".join(text), b"".join(sound))
        text.clear()
        sound.clear()
    report.saw(kind)


async def read(session: RealtimeSession) -> None:
    async for event in session:
        if event.type == "audio":
            sound.append(event.audio.data)
        elif event.type == "raw_model_event" and event.data.type == "raw_server_event":
            take_raw(event.data.data)
        elif event.type == "raw_model_event" and event.data.type == "exception":
            report.failed(None, event.data)
        elif event.type == "error":
            report.failed(getattr(event.error, "code", None), event.error)
        else:
            report.saw(event.type)


async def talk(session: RealtimeSession) -> None:
    await report.until_seen("session.updated")
    for chunk in CHUNKS:
        await session.send_audio(chunk)
    await report.until_seen("response.done")
    await report.until(lambda: bool(report.heard), "the transcript")
    await configure(tool_choice="required", parallel_tool_calls=False, max_output_tokens="inf", tools=[get_weather])
    await session.send_message(TOOL_QUESTION)
    await report.until(lambda: len(report.answers) == 2, "the answer after the tool")
    await report.until_seen("tool_end")
    await configure(tool_choice="none", max_output_tokens=LONG, tools=[get_weather])
    number, heard = len(statuses), report.kinds.count("response.output_audio.delta")
    await session.send_message(LONG_QUESTION)
    await report.until_seen("response.output_audio.delta", heard + 1)
    await session.model.send_event(RealtimeModelSendInterrupt(force_response_cancel=True))
    await report.until(lambda: len(statuses) > number, "the end of the interrupted response")
    report.interrupted_status = statuses[number]
    await report.until_seen("audio_interrupted")
    await report.until_seen("conversation.item.truncated")


async def main() -> None:
    settings: RealtimeSessionModelSettings = {"model_name": MODEL, "max_output_tokens": SHORT, "tool_choice": "none"}
    agent = RealtimeAgent(name="assistant", instructions=INSTRUCTIONS, tools=[get_weather])
    runner = RealtimeRunner(agent, config={"model_settings": settings})
    address = f"{SOCKET_URL}?model={MODEL}"
    async with await runner.run(model_config={"api_key": KEY, "url": address}) as session:
        running.append(session)
        reading, talking = asyncio.create_task(read(session)), asyncio.create_task(talk(session))
        done, _ = await asyncio.wait([reading, talking], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        reading.cancel()
    del report.answers[2:]
    report.print()


asyncio.run(main())
