"""The chunks of a streamed chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from antiphon.runtime.calls.events import Ended
from antiphon.server.chat.chat_call import ChatCall
from antiphon.server.chat.message_builder import deltas, finish_reason
from antiphon.server.text.generation import Generations
from antiphon.server.text.streaming import StreamedUsage, log_usage


async def chat_chunks(
    chat: ChatCall, generations: Generations, log_fields: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """`log_fields` gets the usage at the end."""
    streamed = StreamedUsage(chat.body.stream_options, [chat.call])
    base = chat.base("chat.completion.chunk")

    def chunk(index: int, delta: dict[str, Any], logprobs: Any = None, reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return {**base, "choices": [choice], **streamed.tail(index)}

    parsers = [chat.parser() for _ in range(chat.call.n)]
    for index in range(chat.call.n):
        yield chunk(index, {"role": "assistant", "content": ""})
    async for index, event in generations.events():
        parser = parsers[index]
        if isinstance(event, Ended):
            for delta in deltas(parser.finish()):
                yield chunk(index, delta)
            yield chunk(index, {}, reason=finish_reason(parser, event))
            continue
        streamed.count(index, event)
        entries = chat.logprobs(event)
        logprobs = {"content": entries, "refusal": None} if entries else None
        changes = deltas(parser.feed(chat.text(event)))
        if logprobs is not None and not changes:
            changes = [{"content": ""}]
        for delta in changes:
            yield chunk(index, delta, logprobs)
            logprobs = None
    usage = generations.usage(bool(chat.body.timings))
    log_usage(log_fields, usage)
    if streamed.is_asked:
        yield {**base, "choices": [], "usage": usage}
