"""`RealtimeChat`: the answer of a chat model, in the pieces that a voice session reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from antiphon.errors import EngineError
from antiphon.runtime.calls.events import Ended
from antiphon.runtime.voice.chat_history import last_turn, longest_fitting, room_for_answer
from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.repetition import RepetitionDetector
from antiphon.runtime.voice.services import AnswerPiece, AnswerUsage
from antiphon.runtime.voice.settings import Modality, VoiceSettings
from antiphon.server.apis.realtime.chat_messages import chat_body
from antiphon.server.apis.realtime.leases import ModelLease, as_ours
from antiphon.server.generation.chat.chat_call import ChatCall, finish_reason, is_cut, prepare_chat
from antiphon.server.generation.text.generation import Generations
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import ApiError
from antiphon.text.tool_calls.pieces import Piece, Reasoning


class RealtimeChat:
    """Iterator over the pieces of an answer. Closing it aborts the request and releases the model."""

    def __init__(self, chat: ChatCall, generations: Generations, lease: ModelLease, is_spoken: bool) -> None:
        self._chat = chat
        self._parser = chat.parser()
        self._generations = generations
        self._lease = lease
        self._repetition = RepetitionDetector() if is_spoken else None
        self._pieces: deque[AnswerPiece] = deque()
        self._usage = AnswerUsage(len(chat.call.prompt))
        self._num_tokens = 0
        self._has_stopped = False

    @property
    def usage(self) -> AnswerUsage:
        return self._usage

    def close(self) -> None:
        self._generations.close()
        self._lease.close()

    async def __anext__(self) -> AnswerPiece:
        while not self._pieces:
            if self._has_stopped:
                raise StopAsyncIteration
            with as_ours():
                batch = await self._generations.read()
            if not batch:
                self.close()
                raise StopAsyncIteration
            for _, event in batch:
                if isinstance(event, Ended):
                    self._end(event)
                else:
                    self._num_tokens += len(event.token_ids)
                    self._usage = AnswerUsage(self._usage.input_tokens, output_tokens=self._num_tokens)
                    self._take(self._parser.feed(self._chat.text(event)))
                    if self._repetition is not None and self._repetition.push(event.token_ids):
                        self._stop()
                        break
        return self._pieces.popleft()

    def _stop(self) -> None:
        """End an answer that repeats itself."""
        self._take(self._parser.finish(is_cut=True))
        self._usage = replace(self._usage, is_repeating=True)
        self._has_stopped = True
        self.close()

    def _end(self, ended: Ended) -> None:
        self._take(self._parser.finish(is_cut(ended)))
        was_cut = finish_reason(self._parser, ended) == "length"
        self._usage = AnswerUsage(ended.prompt_tokens, ended.cached_tokens, ended.completion_tokens, was_cut)

    def _take(self, found: list[Piece]) -> None:
        self._pieces += [piece for piece in found if not isinstance(piece, Reasoning)]


async def open_answer(
    serving: Serving, items: Sequence[Item], settings: VoiceSettings, lease: ModelLease
) -> RealtimeChat:
    """Send the chat to the engine and return its answer, which owns the lease. On failure, the lease is closed."""
    try:
        with as_ours():
            settings = _within(settings, serving.config.limits.output_tokens)
            chat = await fitting_chat(serving, items, settings, lease.model.name)
            generations = Generations(serving, [chat.call])
            await generations.open()
    except BaseException:
        lease.close()
        raise
    return RealtimeChat(chat, generations, lease, settings.modality is Modality.AUDIO)


def _within(settings: VoiceSettings, most: int | None) -> VoiceSettings:
    """Apply the server's token limit if the client set none; a limit of the client is checked elsewhere."""
    if most is None or settings.max_tokens is not None or (settings.token_limit or 0) <= most:
        return settings
    return replace(settings, max_tokens=most)


async def fitting_chat(serving: Serving, items: Sequence[Item], settings: VoiceSettings, model: str) -> ChatCall:
    """Prepare the chat; if history may be truncated, drop old turns, as few as possible, until an answer fits."""
    if not settings.truncate_history:
        return await prepare_chat(serving, chat_body(items, settings, model))

    async def prepare(some: Sequence[Item]) -> ChatCall | None:
        try:
            chat = await prepare_chat(serving, chat_body(some, settings, model))
        except ApiError as error:
            if error.code != "context_length_exceeded":
                raise
            return None
        wanted = room_for_answer(settings.token_limit, chat.model.max_tokens)
        return chat if len(chat.call.prompt) + wanted <= chat.model.max_tokens else None

    found = await longest_fitting(items, prepare)
    return found or await prepare_chat(serving, chat_body(last_turn(items), settings, model))


async def prefill(serving: Serving, items: Sequence[Item], settings: VoiceSettings, lease: ModelLease) -> None:
    """Compute the prompt, so that its blocks are cached, and close the lease."""
    stream = None
    try:
        with as_ours():
            chat = await prepare_chat(serving, chat_body(items, settings, lease.model.name, is_prefill=True))
        stream = serving.client.generate(chat.call)
        await stream.accepted()
        while await stream.read():
            pass
    except EngineError:
        pass  # the answer will report the error
    finally:
        if stream is not None:
            stream.close()
        lease.close()
