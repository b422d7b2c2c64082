"""`ChatCall`: a validated chat request, and the checks that build it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.runtime.calls.tasks import Generate
from antiphon.server.generation.chat.functions import with_tools
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import AssistantMessage
from antiphon.server.generation.parameters.parameter_aliases import resolved
from antiphon.server.generation.parameters.prediction import predicted_text
from antiphon.server.generation.parameters.reasoning_effort import template_options
from antiphon.server.generation.parameters.sampling import output_tokens, sampling_params
from antiphon.server.generation.text.chat_prompts import chat_prompt, plain_message
from antiphon.server.generation.text.generation import make_call
from antiphon.server.generation.text.logprobs import RankedTokenEntry, chat_logprobs, prompt_logprobs
from antiphon.server.generation.text.prompts import TOKENIZED_TOKENS, check_prompt, counted_prompt, most_tokens
from antiphon.server.generation.tools.tool_use import ToolUse, tool_use
from antiphon.server.serving.fingerprint import fingerprint
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import invalid
from antiphon.text.chat_template import ChatPrompt
from antiphon.text.reasoning import THINK
from antiphon.text.tool_calls.output_parser import END_THINK, OutputParser

#: The only tier; others are accepted and ignored.
SERVICE_TIER = "default"


@dataclass(frozen=True)
class ChatCall:
    """Call for the engine, and how to read its output."""

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
        thinks, is_in_reasoning = self.looks_for_reasoning, self.is_in_reasoning
        return OutputParser(
            use.names, thinks, is_in_reasoning, use.form, use.is_single, use.custom, is_required=use.is_required
        )

    def text(self, delta: TextDelta) -> str:
        """Return the delta's text, with a tag of tool calls restored if it is a control token, which the text omits."""
        tag = self.use.form.tag
        token = self.model.text.tokenizer.id_of(tag) if self.use.tools and tag else None
        if token not in self.model.text.tokenizer.special_ids or token not in delta.token_ids:
            return delta.text
        text = delta.text
        for index, written in enumerate(delta.token_ids):
            if written != token:
                continue
            rest = self.model.text.tokenizer.decode(delta.token_ids[index + 1 :], skip_special_tokens=True)
            cut = len(text) - len(rest) if text.endswith(rest) else 0
            text = text[:cut] + tag + text[cut:]
        return text

    def logprobs(self, delta: TextDelta) -> list[RankedTokenEntry] | None:
        """Return entries for the tokens of the text, without the end token; None if the request wants none."""
        if not self.body.logprobs:
            return None
        ends = frozenset() if self.body.ignore_eos else self.model.text.eos_ids
        kept = [index for index, token in enumerate(delta.token_ids) if token not in ends]
        ids, values = [delta.token_ids[index] for index in kept], [delta.logprobs[index] for index in kept]
        tops = [delta.top_logprobs[index] for index in kept if index < len(delta.top_logprobs)]
        as_ids = bool(self.body.return_tokens_as_token_ids)
        return chat_logprobs(self.model.text.tokenizer, ids, values, tops, as_ids)

    def prompt_details(self, ended: Ended | None) -> dict[str, Any]:
        """Return the fields with which vLLM describes the prompt, if the request wants them."""
        details: dict[str, Any] = {}
        count = self.body.prompt_logprobs
        if count is not None and ended is not None:
            details["prompt_logprobs"] = prompt_logprobs(self.model.text.tokenizer, self.call.prompt, ended, count)
        if self.body.return_token_ids:
            details["prompt_token_ids"] = self.call.prompt
        return details

    def base(self, kind: str) -> dict[str, Any]:
        base = {"id": self.id, "object": kind, "created": self.created, "model": self.model.name}
        tier = {} if self.body.service_tier is None else {"service_tier": SERVICE_TIER}
        return {**base, "system_fingerprint": fingerprint(self.model.loaded), **tier}


def is_cut(ended: Ended) -> bool:
    """Return whether the output ended at its maximum number of tokens."""
    return ended.finish_reason == "length"


def finish_reason(parser: OutputParser, ended: Ended) -> str:
    """Return `tool_calls` if the answer ends with calls, also if text after the only call was discarded."""
    has_ended = ended.finish_reason == "stop" or (parser.is_ended and is_cut(ended))
    return "tool_calls" if parser.num_calls and has_ended else ended.finish_reason


async def prepare_chat(serving: Serving, body: ChatBody, earlier: Sequence[int] = ()) -> ChatCall:
    """Check everything that can be rejected before the engine receives the request, and build its call.

    `earlier` are tokens that come before the prompt.
    """
    limits = serving.config.limits
    body = with_tools(resolved(body, limits.output_tokens))
    model = await serving.models.ready(body.model, "generate")
    _check_choices(body, limits.choices)
    use = await asyncio.to_thread(tool_use, body, model, limits)  # compiling a grammar takes a while
    grammar = use.grammar
    continues = bool(body.continue_final_message)
    prompt = await _prompt(serving, body, model, use, most_tokens(model, limits, body.truncate_prompt_tokens))
    asked = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    ids = check_prompt([*earlier, *prompt.ids], model, limits, "messages", body.truncate_prompt_tokens, asked)
    if asked == 0:
        raise invalid("max_tokens is 0; it must be 1 or more", "max_tokens")
    prediction = await asyncio.to_thread(predicted_text, body.prediction, model) if body.prediction else ""
    params = sampling_params(
        body,
        model,
        limits,
        prediction=prediction,
        max_tokens=output_tokens(asked, len(ids), model, limits, None),
        # With log-probabilities the engine also reports the end token.
        logprobs=(body.top_logprobs or 0) if body.logprobs else 0 if body.return_token_ids else None,
        grammar=grammar,
        more_stops=[use.form.end] if use.is_single and use.tools and grammar is None and use.form.end else (),
    )
    template = model.text.chat_template
    # An answer constrained by a grammar has no reasoning: it begins with what the grammar allows.
    thinks = use.is_free and template is not None and THINK in template.source
    is_in_reasoning = thinks and (prompt.text.rstrip().endswith(THINK) or (continues and _is_reasoning(body)))
    return ChatCall(model, body, make_call(serving, body, model, ids, params, grammar), use, thinks, is_in_reasoning)


async def count_prompt(serving: Serving, body: ChatBody) -> int:
    """Return the number of tokens in a chat's prompt, which may exceed the model's context."""
    body = with_tools(body)
    model = await serving.models.ready(body.model, "generate")
    _check_choices(body, serving.config.limits.choices)
    use = await asyncio.to_thread(tool_use, body, model, serving.config.limits)
    return len((await _prompt(serving, body, model, use, max(TOKENIZED_TOKENS, model.max_tokens))).ids)


async def _prompt(serving: Serving, body: ChatBody, model: ReadyModel, use: ToolUse, most: int) -> ChatPrompt:
    """Build the prompt of a chat. Raise `ApiError` if it has more than `most` tokens."""
    generates, continues = body.add_generation_prompt is not False, bool(body.continue_final_message)
    if continues and use.tools and use.form.is_generic and use.form.text_key:
        message = (
            f"model {model.name!r} cannot continue the last message of a chat with tools: its chat template knows "
            "no tools, so its answers are JSON; omit tools or set tool_choice to none"
        )
        raise invalid(message, "continue_final_message", "unsupported_value")
    options = template_options(body.chat_template_kwargs, body.reasoning_effort, model)
    form = use.form if use.tools else None
    render = partial(chat_prompt, model, body.messages, use.tools, generates, options, most, continues, form)
    return await asyncio.to_thread(counted_prompt, render, model, serving.config.limits, "messages")


def _is_reasoning(body: ChatBody) -> bool:
    """Return whether the last message ends inside its reasoning."""
    text = str(plain_message(body.messages[-1])["content"])
    return text.rfind(THINK) > text.rfind(END_THINK)


def _check_choices(body: ChatBody, limit: int) -> None:
    if (body.n or 1) > limit:
        raise invalid(f"n is {body.n}; this server allows at most {limit}", "n")
    if body.top_logprobs is not None and not body.logprobs:
        raise invalid("top_logprobs requires logprobs: true", "top_logprobs")
    if body.prompt_logprobs is not None and body.stream:
        raise invalid("prompt_logprobs cannot be streamed: they are known at the end", "prompt_logprobs")
    if body.continue_final_message:
        _check_last(body)


def _check_last(body: ChatBody) -> None:
    """Raise unless the last message can be continued."""
    if body.add_generation_prompt:
        message = "continue_final_message and add_generation_prompt cannot both be true"
        raise invalid(message, "continue_final_message")
    last = body.messages[-1]
    if not isinstance(last, AssistantMessage):
        message = f"continue_final_message requires a last message of the assistant; its role is {last.role}"
        raise invalid(message, "continue_final_message")
    if last.tool_calls or last.function_call is not None:
        raise invalid("continue_final_message: the last message has calls", "continue_final_message")
