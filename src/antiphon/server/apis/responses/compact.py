"""`POST /v1/responses/compact`: replaces a long conversation by one item, which later requests accept."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, Request, Response

from antiphon.errors import TooManyTokensError
from antiphon.runtime.calls.events import Ended
from antiphon.server.apis.responses.compaction import MAX_KEPT, Summary, expanded, packed
from antiphon.server.apis.responses.history import history
from antiphon.server.apis.responses.items import transcript
from antiphon.server.apis.responses.request_schemas import CompactBody, MessageItem, PlainItem
from antiphon.server.apis.responses.response_schemas import CompactedAnswer
from antiphon.server.apis.responses.response_usage import response_usage
from antiphon.server.apis.responses.store import store_of
from antiphon.server.generation.chat.chat_call import is_cut, prepare_chat
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import SystemMessage, UserMessage
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.prompts import TOKENIZED_TOKENS, too_many_tokens
from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.stored.conversations import conversations_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response, unless_disconnected
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described
from antiphon.text.tool_calls.pieces import Content, Piece

router = APIRouter()

TASK = (
    "Summarise the conversation for someone who will continue it. Keep what the user asked for, facts, names, numbers, "
    "decisions, results of tools and open questions. Leave out greetings. Write only the summary."
)
#: Divisors of the context length: maximum tokens of the items kept unchanged, and of a summary.
KEPT_SHARE, SUMMARY_SHARE = 4, 8
MAX_SUMMARY_TOKENS = 512
#: Maximum chunks of a conversation, each half a context long and summarized by one generation.
MAX_PIECES = 64


@router.post("/v1/responses/compact")
@described(body=CompactBody, answer=CompactedAnswer)
async def compact(request: Request) -> Response:
    serving, context = serving_of(request), context_of(request)
    body = await read_body(request, CompactBody, serving.config.limits.body_bytes)
    stores = (store_of(request), conversations_of(request))
    found = await history(body.input, body.previous_response_id, None, stores, context.key)
    items = list(expanded(found.items))
    model = await serving.models.ready(body.model, "generate")
    context.log_fields["model"] = model.name
    compaction = Compaction(serving, model, body.instructions)
    content = await unless_disconnected(request, compaction.run(items))
    answer = {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [{"id": f"cmp_{uuid.uuid4().hex}", "type": "compaction", "encrypted_content": content}],
        "usage": compaction.usage(),
    }
    return json_response(answer)


class Compaction:
    """Compaction of a conversation: keeps the last turn if it is short enough, and has the model summarize the rest."""

    def __init__(self, serving: Serving, model: ReadyModel, instructions: str | None) -> None:
        self._serving = serving
        self._model = model
        self._task = TASK if instructions is None else f"{TASK}\n\nThe instructions were:\n{instructions}"
        self._prompt_tokens = self._completion_tokens = self._cached_tokens = 0
        self._piece_tokens = max(16, model.max_tokens // 2)

    async def run(self, items: Sequence[PlainItem | Summary]) -> str:
        """Return the content of the compaction item."""
        start = max((index for index, item in enumerate(items) if _is_users(item)), default=len(items))
        kept = [item for item in items[start:] if not isinstance(item, Summary)]
        num_tokens = len(await self._encode(transcript(kept)))
        if len(kept) > MAX_KEPT or num_tokens > self._model.max_tokens // KEPT_SHARE:
            start, kept = len(items), []
        return packed(await self._summary(items[:start]), kept)

    def usage(self) -> WireEvent:
        usage = TokenUsage(self._prompt_tokens, self._completion_tokens, self._cached_tokens)
        return response_usage(usage, 0, with_timings=False)

    async def _summary(self, items: Sequence[PlainItem | Summary]) -> str:
        """Summarize the items; a long text is summarized in chunks, each together with the summary so far."""
        summary = "\n".join(item.text for item in items if isinstance(item, Summary))
        ids = await self._encode(transcript([item for item in items if not isinstance(item, Summary)]))
        size = self._piece_tokens
        if not ids and len(await self._encode(summary)) <= self._model.max_tokens // KEPT_SHARE:
            return summary
        for start in range(0, len(ids), size):
            piece = await asyncio.to_thread(self._model.text.tokenizer.decode, ids[start : start + size])
            before = f"Summary of what came before:\n{summary}\n\n" if summary else ""
            summary = await self._ask(f"{before}Conversation:\n{piece}")
        return summary

    async def _encode(self, text: str) -> list[int]:
        if not text:
            return []
        most = min(max(TOKENIZED_TOKENS, self._model.max_tokens), MAX_PIECES * self._piece_tokens)
        encode = partial(self._model.text.tokenizer.encode, add_special_tokens=False, parse_special=False)
        try:
            return await asyncio.to_thread(encode, text, max_tokens=most)
        except TooManyTokensError as error:
            raise too_many_tokens(error, "input") from None

    async def _ask(self, text: str) -> str:
        longest = max(1, min(MAX_SUMMARY_TOKENS, self._model.max_tokens // SUMMARY_SHARE))
        allowed = self._serving.config.limits.output_tokens
        longest = longest if allowed is None else min(longest, allowed)
        system = SystemMessage(role="system", content=self._task)
        user = UserMessage(role="user", content=text)
        body = ChatBody(model=self._model.name, messages=[system, user], max_completion_tokens=longest, temperature=0.0)
        chat = await prepare_chat(self._serving, body)
        generations, parser = Generations(self._serving, [chat.call]), chat.parser()
        pieces: list[Piece] = []
        with contextlib.closing(generations):
            await generations.open()
            async for _, event in generations.events():
                pieces += parser.finish(is_cut(event)) if isinstance(event, Ended) else parser.feed(chat.text(event))
        usage = generations.usage()
        self._prompt_tokens += usage.prompt
        self._completion_tokens += usage.completion
        self._cached_tokens += usage.cached
        return "".join(piece.text for piece in pieces if isinstance(piece, Content)).strip()


def _is_users(item: PlainItem | Summary) -> bool:
    return isinstance(item, MessageItem) and item.role == "user"
