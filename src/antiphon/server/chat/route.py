"""`POST /v1/chat/completions`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.runtime.messages import Ended, Generate, GrammarFields, TextDelta
from antiphon.server.chat.audio_input import has_sound, spoken_reply, without_sound
from antiphon.server.chat.request_schemas import ChatBody
from antiphon.server.chat.spoken_reply import SpokenReply, spoken_chunks
from antiphon.server.chat.tool_use import ToolUse, tool_use
from antiphon.server.http.bodies import read_body
from antiphon.server.http.errors import invalid
from antiphon.server.http.events import closing, note_usage, stream_events
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import EventStream, Serving, json_answer, serving_of, unless_gone
from antiphon.server.text.generation import Generations, make_call
from antiphon.server.text.logprobs import chat_logprobs
from antiphon.server.text.prompts import chat_prompt
from antiphon.server.text.sampling import check_prompt, grammar_fields, output_tokens, sampling_fields
from antiphon.server.tool_calls.output_parser import THINK, CallArguments, CallStart, Content, OutputParser, Piece

router = APIRouter()


@dataclass(frozen=True)
class Chat:
    """A chat that was understood: what the engine is asked, and how its answer is read."""

    model: ReadyModel
    body: ChatBody
    call: Generate
    use: ToolUse
    looks_for_reasoning: bool
    is_in_reasoning: bool
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def parser(self) -> OutputParser:
        use = self.use
        return OutputParser(use.names, self.looks_for_reasoning, self.is_in_reasoning, use.form, use.is_single)

    def text(self, delta: TextDelta) -> str:
        """What was written, with the form's tag where it is a control token, which text leaves out."""
        tag = self.use.form.tag
        token = self.model.text.tokenizer.id_of(tag) if self.use.tools else None
        if token not in self.model.text.tokenizer.special_ids or token not in delta.token_ids:
            return delta.text
        text = delta.text
        for place, written in enumerate(delta.token_ids):
            if written != token:
                continue
            rest = self.model.text.tokenizer.decode(delta.token_ids[place + 1 :], skip_special_tokens=True)
            cut = len(text) - len(rest) if text.endswith(rest) else 0
            text = text[:cut] + tag + text[cut:]
        return text

    def logprobs(self, delta: TextDelta) -> list[dict[str, Any]] | None:
        """Entries of the tokens that are text; the end token is not."""
        if not self.body.logprobs:
            return None
        ends = frozenset() if self.body.ignore_eos else self.model.text.eos_ids
        kept = [place for place, token in enumerate(delta.token_ids) if token not in ends]
        ids, values = [delta.token_ids[place] for place in kept], [delta.logprobs[place] for place in kept]
        tops = [delta.top_logprobs[place] for place in kept if place < len(delta.top_logprobs)]
        return chat_logprobs(self.model.text.tokenizer, ids, values, tops)

    def base(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model.name}


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, ChatBody, serving.config.limits.body_bytes)
    passage = request.scope["passage"]
    if has_sound(body):
        body = await unless_gone(request, without_sound(serving, body, passage.key))
    reply = await spoken_reply(serving, body)
    chat = await understand(serving, body)
    figures = passage.figures
    figures["model"] = chat.model.name
    generations = Generations(serving, [chat.call])
    if reply is not None:
        passage.at_end += [reply.close, lambda: serving.sounds.put(reply.id, passage.key, reply.transcript)]
    if body.stream:
        await unless_gone(request, generations.open())
        chunks = _chunks(chat, generations, figures)
        events = stream_events(generations, chunks if reply is None else spoken_chunks(chunks, reply), figures)
        return EventStream(events, generations.close)
    return await unless_gone(request, _whole(chat, generations, figures, reply))


async def understand(serving: Serving, body: ChatBody) -> Chat:
    """Everything that can be rejected before the engine sees the request."""
    limits = serving.config.limits
    model = await serving.models.ready(body.model, "generate")
    _check_choices(body, limits.choices)
    use = tool_use(body, model, limits)
    grammar = _form(body, use)
    prompt = await asyncio.to_thread(chat_prompt, model, body.messages, use.tools, True, body.chat_template_kwargs)
    ids = check_prompt(prompt.ids, model, limits, "messages", body.truncate_prompt_tokens)
    asked = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    if asked == 0:
        raise invalid("max_tokens is 0; it must be 1 or more", "max_tokens")
    params = sampling_fields(
        body,
        model,
        limits,
        max_tokens=output_tokens(asked, len(ids), model, limits, None),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        grammar=grammar,
        more_stops=[use.form.end] if use.is_single and use.tools and use.grammar is None and use.form.end else (),
    )
    template = model.text.chat_template
    # An answer of a given form begins with that form, so there is nothing else to look for in it.
    thinks = grammar is None and template is not None and THINK in template.source
    is_in_reasoning = thinks and prompt.text.rstrip().endswith(THINK)
    return Chat(model, body, make_call(serving, body, model, ids, params, grammar), use, thinks, is_in_reasoning)


def _check_choices(body: ChatBody, limit: int) -> None:
    if (body.n or 1) > limit:
        raise invalid(f"n is {body.n}; this server takes at most {limit}", "n")
    if body.top_logprobs is not None and not body.logprobs:
        raise invalid("top_logprobs goes with logprobs: true", "top_logprobs")
    if body.stream_options is not None and not body.stream:
        raise invalid("stream_options goes with stream: true", "stream_options")
    if None not in (body.max_tokens, body.max_completion_tokens) and body.max_tokens != body.max_completion_tokens:
        raise invalid("max_tokens and max_completion_tokens differ; give one", "max_tokens")


def _form(body: ChatBody, use: ToolUse) -> GrammarFields | None:
    grammar = grammar_fields(body)
    if grammar is not None and use.tools:
        message = "an answer held to a form cannot call tools: leave one out, or set tool_choice to none"
        raise invalid(message, "response_format", "unsupported_value")
    return grammar or use.grammar


class Reply:
    """One choice's message, put together from the parser's pieces."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.parser = chat.parser()
        self._text = {"content": "", "reasoning_content": ""}
        self._calls: list[dict[str, Any]] = []
        self._logprobs: list[dict[str, Any]] = []

    def add(self, delta: TextDelta) -> None:
        self._take(self.parser.feed(self._chat.text(delta)))
        self._logprobs += self._chat.logprobs(delta) or []

    @property
    def content(self) -> str:
        """The text so far."""
        return self._text["content"]

    def _take(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            for change in deltas([piece]):
                for name in self._text:
                    self._text[name] += change.get(name, "")
                for call in change.get("tool_calls", ()):
                    self._add_call(call)

    def _add_call(self, call: dict[str, Any]) -> None:
        if "id" in call:
            self._calls.append({"id": call["id"], "type": "function", "function": dict(call["function"])})
        else:
            self._calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]

    def choice(self, index: int, ended: Ended) -> dict[str, Any]:
        self._take(self.parser.finish())
        content = self._text["content"]
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if self._calls else "")}
        message["refusal"] = None
        if self._text["reasoning_content"]:
            message["reasoning_content"] = self._text["reasoning_content"]
        if self._calls:
            message["tool_calls"] = self._calls
        logprobs = {"content": self._logprobs, "refusal": None} if self._chat.body.logprobs else None
        reason = finish_reason(self.parser, ended)
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}


def finish_reason(parser: OutputParser, ended: Ended) -> str:
    return "tool_calls" if parser.num_calls and ended.finish_reason == "stop" else ended.finish_reason


def deltas(pieces: list[Piece]) -> list[dict[str, Any]]:
    """Pieces as the `delta` of a chunk each."""
    changes: list[dict[str, Any]] = []
    for piece in pieces:
        if isinstance(piece, Content):
            changes.append({"content": piece.text})
        elif isinstance(piece, CallStart):
            function = {"name": piece.name, "arguments": ""}
            call = {"index": piece.index, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
            changes.append({"tool_calls": [call]})
        elif isinstance(piece, CallArguments):
            changes.append({"tool_calls": [{"index": piece.index, "function": {"arguments": piece.text}}]})
        else:
            changes.append({"reasoning_content": piece.text})
    return changes


async def _whole(chat: Chat, generations: Generations, figures: dict[str, Any], spoken: SpokenReply | None) -> Response:
    async with closing(generations):
        await generations.open()
        replies = [Reply(chat) for _ in range(chat.call.n)]
        choices: list[dict[str, Any]] = []
        async for index, event in generations.events():
            if isinstance(event, Ended):
                choices.append(replies[index].choice(index, event))
            else:
                replies[index].add(event)
                if spoken is not None:
                    spoken.say(replies[index].content[len(spoken.transcript) :])
    if spoken is not None:
        choices[0]["message"] |= await spoken.message(replies[0].content)
    usage = generations.usage(bool(chat.body.timings))
    note_usage(figures, usage)
    choices.sort(key=lambda choice: int(choice["index"]))
    return json_answer({**chat.base("chat.completion"), "choices": choices, "usage": usage})


async def _chunks(chat: Chat, generations: Generations, figures: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    wants_usage = chat.body.stream_options is not None and bool(chat.body.stream_options.include_usage)
    base = chat.base("chat.completion.chunk")
    tail: dict[str, Any] = {"usage": None} if wants_usage else {}

    def chunk(index: int, delta: dict[str, Any], logprobs: Any = None, reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return {**base, "choices": [choice], **tail}

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
        entries = chat.logprobs(event)
        logprobs = {"content": entries, "refusal": None} if entries else None
        changes = deltas(parser.feed(chat.text(event)))
        if logprobs is not None and not changes:
            changes = [{"content": ""}]
        for delta in changes:
            yield chunk(index, delta, logprobs)
            logprobs = None
    usage = generations.usage(bool(chat.body.timings))
    note_usage(figures, usage)
    if wants_usage:
        yield {**base, "choices": [], "usage": usage}
