"""pipecat-ai: a pipeline around its OpenAI realtime service.

Such a pipeline begins with the bot's turn, which is the tool's here. The interruption is speech during an answer.
"""

from __future__ import annotations

import asyncio

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMRunFrame,
    LLMUpdateSettingsFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from voice_common import (
    CHUNKS,
    INSTRUCTIONS,
    KEY,
    LONG,
    LONG_INSTRUCTIONS,
    MODEL,
    RATE,
    SHORT,
    SOCKET_URL,
    TOOL_QUESTION,
    TOOL_RESULT,
    TRANSCRIPTION,
    Report,
)

#: Frames that stand for one of the server's events.
KINDS = {
    ProposedUserStartedSpeakingFrame: "input_audio_buffer.speech_started",
    ProposedUserStoppedSpeakingFrame: "input_audio_buffer.speech_stopped",
    InterruptionFrame: "interruption",
    TTSAudioRawFrame: "audio",
    LLMFullResponseEndFrame: "end",
}
WEATHER = FunctionSchema(
    name="get_weather",
    description="The weather of a city.",
    properties={"city": {"type": "string", "enum": ["Paris", "Oslo"]}},
    required=["city"],
)
report = Report()
items: dict[str, events.ConversationItem] = {}


class Collector(FrameProcessor):
    """Notes what passes downstream, or upstream if it stands before the service."""

    def __init__(self, direction: FrameDirection) -> None:
        super().__init__()
        self._noted = direction
        self._text: list[str] = []
        self._sound: list[bytes] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if direction == self._noted:
            self._note(frame)
        await self.push_frame(frame, direction)

    def _note(self, frame: Frame) -> None:
        if isinstance(frame, ErrorFrame):
            report.failed(None, frame)
        elif isinstance(frame, TranscriptionFrame):
            report.heard = report.heard or frame.text
            report.notify()
        elif isinstance(frame, TTSTextFrame):
            self._text.append(frame.text)
        elif isinstance(frame, TTSAudioRawFrame):
            self._sound.append(frame.audio)
        elif isinstance(frame, LLMFullResponseEndFrame) and self._sound:
            report.answered("".join(self._text), b"".join(self._sound))
            self._text, self._sound = [], []
        if self._noted == FrameDirection.DOWNSTREAM and type(frame) in KINDS:
            report.saw(KINDS[type(frame)])


def settings(
    tool_choice: str, max_tokens: int | str, instructions: str = INSTRUCTIONS
) -> OpenAIRealtimeLLMService.Settings:
    heard = events.AudioInput(transcription=events.InputAudioTranscription(model=TRANSCRIPTION))
    return OpenAIRealtimeLLMService.Settings(
        model=MODEL,
        system_instruction=instructions,
        session_properties=events.SessionProperties(
            audio=events.AudioConfiguration(input=heard),
            tool_choice=tool_choice,
            max_output_tokens=max_tokens,
        ),
    )


async def get_weather(params: FunctionCallParams) -> None:
    report.tool_arguments = dict(params.arguments)
    # The answer to the tool's result is spoken.
    await params.llm.queue_frame(LLMUpdateSettingsFrame(delta=settings("none", SHORT)))
    await params.result_callback(TOOL_RESULT)


async def note_item(service: OpenAIRealtimeLLMService, item_id: str, item: events.ConversationItem | None) -> None:
    if item is not None:
        items[item_id] = item
        report.notify()


async def say(worker: PipelineWorker) -> None:
    await worker.queue_frames([InputAudioRawFrame(audio=chunk, sample_rate=RATE, num_channels=1) for chunk in CHUNKS])


async def talk(worker: PipelineWorker, service: OpenAIRealtimeLLMService) -> None:
    await worker.queue_frame(LLMRunFrame())
    await report.until(lambda: len(report.answers) == 1, "the answer after the tool")
    await say(worker)
    await report.until(lambda: len(report.answers) == 2 and bool(report.heard), "the answer to the speech")
    report.answers.reverse()
    await worker.queue_frame(LLMUpdateSettingsFrame(delta=settings("none", LONG, LONG_INSTRUCTIONS)))
    known, before = set(items), report.kinds.count("audio")
    await say(worker)
    await report.until_seen("audio", before + 1)
    interruptions = report.kinds.count("interruption")
    await say(worker)
    await report.until_seen("interruption", interruptions + 1)

    def cut_off() -> list[events.ConversationItem]:
        return [item for item_id, item in items.items() if item_id not in known and item.role == "assistant"]

    await report.until(lambda: any(item.status != "in_progress" for item in cut_off()), "the end of the answer")
    item = cut_off()[0]
    report.interrupted_status = "cancelled" if item.status == "incomplete" else item.status
    report.was_over = item.status == "completed"
    kept = await asyncio.wait_for(service.retrieve_conversation_item(item.id), 60)
    assert kept.id == item.id
    await worker.queue_frame(EndFrame())


async def main() -> None:
    service = OpenAIRealtimeLLMService(api_key=KEY, base_url=SOCKET_URL, settings=settings("required", "inf"))
    service.register_function(WEATHER.name, get_weather)
    for name in ("on_conversation_item_created", "on_conversation_item_updated"):
        service.event_handler(name)(note_item)
    context = LLMContext([{"role": "user", "content": TOOL_QUESTION}], ToolsSchema(standard_tools=[WEATHER]))
    by_the_server = LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies())
    user, assistant = LLMContextAggregatorPair(context, user_params=by_the_server)
    before, after = Collector(FrameDirection.UPSTREAM), Collector(FrameDirection.DOWNSTREAM)
    worker = PipelineWorker(Pipeline([user, before, service, after, assistant]), idle_timeout_secs=None)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    await talk(worker, service)
    await asyncio.wait_for(running, 60)
    del report.answers[2:]
    report.print()


asyncio.run(main())
