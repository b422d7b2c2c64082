"""Streams: events of text made in one piece are those of whole chunks, and what a step gave is read at once."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from antiphon.engine.request import FinishReason
from antiphon.errors import EngineError
from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.text.stream import GenerateStream
from antiphon.server.generation.text.wire_format import TextEvents
from antiphon.server.web.http.events import event
from antiphon.text.tool_calls.forms import HERMES
from antiphon.text.tool_calls.output_parser import Content, OutputParser


class Control:
    id = "call"

    def __init__(self) -> None:
        self.cancelled: list[FinishReason] = []

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self.cancelled.append(reason)


def stream(num_samples: int = 1) -> tuple[GenerateStream, ThreadSink]:
    sink = ThreadSink()
    ids = ["call", *(f"call/{index}" for index in range(num_samples))]
    return GenerateStream(Control(), sink, num_samples, ids), sink


def delta(text: str, sample: int = 0) -> TextDelta:
    return TextDelta(f"call/{sample}", text, [len(text)])


def ended(sample: int = 0) -> Ended:
    return Ended(f"call/{sample}", "stop", 1, 1, 0)


@pytest.mark.parametrize(
    "text", ["", "plain", 'a "quoted" \\ word\n', "é 漢 🎶 \u2028", "\x00\x7f", "null", "x" * 5000]
)
def test_a_text_event_is_that_of_its_chunk(text: str) -> None:
    def chunk(content: str) -> dict[str, Any]:
        return {"id": "x", "choices": [{"index": 3, "delta": {"content": content}, "logprobs": None}], "usage": None}

    made = TextEvents(chunk).event(text)
    assert made == event(chunk(text))
    assert orjson.loads(made.removeprefix(b"data: "))["choices"][0]["delta"]["content"] == text


def test_a_read_takes_all_that_has_come() -> None:
    async def main() -> None:
        reader, sink = stream(2)
        sink.put_deltas([delta("a"), delta("b", 1)])
        assert await reader.read() == [delta("a"), delta("b", 1)]
        waiting = asyncio.ensure_future(reader.read())
        await asyncio.sleep(0)
        assert not waiting.done()
        sink.put_deltas([delta("c"), TextDelta("another/0", "x", [1])])
        assert await waiting == [delta("c")]
        sink.put("call/0", ended())
        sink.put_deltas([delta("d", 1)])
        sink.put("call/1", ended(1))
        assert await reader.read() == [ended(), delta("d", 1), ended(1)]
        assert await reader.read() == []

    asyncio.run(main())


def test_a_late_reader_gets_fewer_and_larger_deltas() -> None:
    async def main() -> None:
        reader, sink = stream()
        for text in ("a", "bc", "def"):
            sink.put_deltas([delta(text)])
        assert await reader.read() == [TextDelta("call/0", "abcdef", [1, 2, 3])]

    asyncio.run(main())


def test_a_failure_is_raised_after_what_came_before() -> None:
    async def main() -> None:
        reader, sink = stream()
        sink.put_deltas([delta("a")])
        sink.put("call", EngineError("gone"))
        assert await reader.read() == [delta("a")]
        with pytest.raises(EngineError, match="gone"):
            await reader.read()

    asyncio.run(main())


def test_a_cancelled_read_loses_nothing() -> None:
    async def main() -> None:
        reader, sink = stream()
        waiting = asyncio.ensure_future(reader.read())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        sink.put_deltas([delta("a")])
        assert await reader.read() == [delta("a")]

    asyncio.run(main())


def test_text_passes_a_transparent_parser_unchanged() -> None:
    parser = OutputParser()
    assert parser.is_transparent
    assert parser.feed(" a <tool_call> {") == [Content(" a <tool_call> {")]
    assert parser.is_transparent


@pytest.mark.parametrize("options", [{"tools": frozenset({"f"})}, {"reasoning": True}, {"in_reasoning": True}])
def test_a_parser_that_looks_for_something_is_not_transparent(options: dict[str, Any]) -> None:
    assert not OutputParser(form=HERMES, **options).is_transparent


def test_a_parser_becomes_transparent_after_the_reasoning() -> None:
    parser = OutputParser(in_reasoning=True)
    parser.feed("hm</think>")
    assert not parser.is_transparent  # blanks before the content are dropped
    assert parser.feed("\n\nyes") == [Content("yes")]
    assert parser.is_transparent
