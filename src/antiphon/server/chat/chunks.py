"""The chunks of a streamed chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from antiphon.runtime.calls.events import Ended
from antiphon.server.chat.chat_call import ChatCall
from antiphon.server.chat.message_builder import deltas, finish_reason, is_cut
from antiphon.server.text.generation import Generations
from antiphon.server.text.streaming import StreamedUsage, log_usage


async def chat_chunks(
    chat: ChatCall, generations: Generations, log_fields: dict[str, Any]
) -> AsyncGenerator[dict[str, Any]]:
    """`log_fields` gets the usage at the end."""
    streamed = StreamedUsage(chat.body.stream_options, [chat.call])
    base = chat.base("chat.completion.chunk")

    def chunk(
        index: int, delta: dict[str, Any], logprobs: Any = None, reason: str | None = None, ids: Sequence[int] = ()
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        if chat.body.return_token_ids:
            choice["token_ids"] = list(ids)
        return {**base, "choices": [choice], **streamed.tail(index)}

    parsers = [chat.parser() for _ in range(chat.call.n)]
    for index in range(chat.call.n):
        yield {**chunk(index, {"role": "assistant", "content": ""}), **({} if index else chat.prompt_details(None))}
    async for index, event in generations.events():
        parser = parsers[index]
        if isinstance(event, Ended):
            for delta in deltas(parser.finish(is_cut(event))):
                yield chunk(index, delta)
            yield chunk(index, {}, reason=finish_reason(parser, event))
            continue
        streamed.count(index, event)
        entries = chat.logprobs(event)
        logprobs = {"content": entries, "refusal": None} if entries else None
        changes = deltas(parser.feed(chat.text(event)))
        ids: Sequence[int] = event.token_ids if chat.body.return_token_ids else ()
        if (logprobs is not None or ids) and not changes:
            changes = [{"content": ""}]
        for delta in changes:
            yield chunk(index, delta, logprobs, ids=ids)
            logprobs, ids = None, ()
    usage = generations.usage(bool(chat.body.timings))
    log_usage(log_fields, usage)
    if streamed.is_asked:
        yield {**base, "choices": [], "usage": usage}
