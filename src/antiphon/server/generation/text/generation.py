"""`Generations`: the calls of one request, which are sent to the engine, read and ended together."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence

from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.runtime.calls.tasks import Generate
from antiphon.runtime.text.stream import GenerateStream
from antiphon.server.generation.parameters.request_schemas import GenerateBody
from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.serving.failures import engine_failure, engine_unavailable
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import priority_of
from antiphon.server.web.http.errors import SERVER, ApiError, api_error, invalid
from antiphon.text.grammar_spec import GrammarSpec

GOOD_ENDS = ("stop", "length")
TIMINGS = ("queue", "time_to_first_token", "time_per_output_token", "total")
#: Event with the number of its choice.
Numbered = tuple[int, TextDelta | Ended]


def make_call(
    serving: Serving,
    body: GenerateBody,
    model: ReadyModel,
    prompt: list[int],
    params: SamplingParams,
    grammar: GrammarSpec | None,
    num_samples: int | None = None,
) -> Generate:
    """Build the call for a prompt; `num_samples` defaults to the number of choices."""
    return Generate(
        id=uuid.uuid4().hex,
        model=model.name,
        prompt=prompt,
        params=params,
        n=num_samples or body.n or 1,
        priority=priority_of(body.priority),
        timeout=serving.config.limits.request_seconds,
        grammar=grammar,
        # A salt used once: no later request finds these blocks.
        cache_salt=(body.cache_salt or "") + (uuid.uuid4().hex if body.cache_prompt is False else ""),
    )


class Generations:
    """Generations of one request. Choices are numbered across its calls: first those of the first prompt.

    `open` sends the calls and raises if the engine rejects one, before the response begins. Generations must be closed;
    closing cancels those that are still running.
    """

    def __init__(self, serving: Serving, calls: Sequence[Generate], counts_output: bool = True) -> None:
        self._serving = serving
        self._calls = calls
        self._counts_output = counts_output
        self._streams: list[GenerateStream] = []
        self._ended: list[list[Ended]] = [[] for _ in calls]
        samples = (f"{call.id}/{index}" for call in calls for index in range(call.n))
        self._numbers = {sample: number for number, sample in enumerate(samples)}
        self._failure: ApiError | None = None
        #: Pending reads of several calls, each with the call's index.
        self._reading: dict[asyncio.Task[list[Numbered]], int] | None = None

    async def open(self) -> None:
        try:
            for call in self._calls:
                self._streams.append(self._serving.client.generate(call))
            for stream in self._streams:
                await stream.accepted()
        except EngineError as error:
            self.close()
            client = self._serving.client
            raise engine_unavailable(client) if client.state != "ready" else engine_failure(client, error) from error
        except AntiphonError as error:
            self.close()
            raise api_error(error) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for task in self._reading or ():
            task.cancel()
        for stream in self._streams:
            stream.close()

    @property
    def has_ended(self) -> bool:
        """Whether every sample has ended, so that `usage` is known."""
        return all(len(ended) == call.n for ended, call in zip(self._ended, self._calls, strict=True))

    def cancel(self) -> None:
        """Cancel the calls, so that `events` raises."""
        for stream in self._streams:
            stream.cancel()

    async def events(self) -> AsyncIterator[Numbered]:
        """Yield deltas and ends as they arrive, each with the number of its choice. Raise if a call fails."""
        while batch := await self.read():
            for numbered in batch:
                yield numbered

    async def read(self) -> list[Numbered]:
        """Wait for events, and return all since the last read; empty at the end.

        If a call fails, raise after the earlier events have been read.
        """
        batch: list[Numbered] = []
        if self._failure is None:
            batch = await (self._read(0) if len(self._streams) == 1 else self._read_any())
        if self._failure is not None and not batch:
            raise self._failure
        return batch

    async def _read_any(self) -> list[Numbered]:
        """Return the next events of the first calls that have some."""
        if self._reading is None:
            self._reading = {asyncio.create_task(self._read(index)): index for index in range(len(self._streams))}
        batch: list[Numbered] = []
        while self._reading and not batch and self._failure is None:
            done, _ = await asyncio.wait(self._reading, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                index = self._reading.pop(task)
                if task.result():
                    batch += task.result()
                    self._reading[asyncio.create_task(self._read(index))] = index
        return batch

    async def _read(self, index: int) -> list[Numbered]:
        """Return a call's next events up to a failure, which is stored; empty at the end."""
        batch: list[Numbered] = []
        try:
            events = await self._streams[index].read()
            for event in events:
                if isinstance(event, Ended):
                    self._note(index, event)
                batch.append((self._numbers[event.id], event))
            if not events and len(self._ended[index]) < self._calls[index].n:
                raise ApiError(500, "the engine ended a stream early", code="engine_error", kind=SERVER)
        except ApiError as error:
            self._failure = error
        except EngineError as error:
            self._failure = engine_failure(self._serving.client, error)
        except AntiphonError as error:
            self._failure = api_error(error)
        return batch

    def _note(self, index: int, ended: Ended) -> None:
        model, metrics = self._calls[index].model, self._serving.metrics
        if not self._ended[index]:
            metrics.prompt(model, ended.prompt_tokens, ended.cached_tokens)
        metrics.ended(model, ended)
        if self._serving.tracing is not None:
            self._serving.tracing.generation(model, ended)
        self._ended[index].append(ended)
        if ended.finish_reason not in GOOD_ENDS:
            raise _bad_end(ended, self._serving.config.limits.request_seconds)

    def usage(self) -> TokenUsage:
        """Return the tokens of all calls. Every sample must have ended."""
        every = [ended for group in self._ended for ended in group]
        # Later samples reuse the first sample's blocks, so the minimum is what the cache had before.
        cached = sum(min(ended.cached_tokens for ended in group) for group in self._ended if group)
        return TokenUsage(
            prompt=sum(group[0].prompt_tokens for group in self._ended if group),
            completion=sum(ended.completion_tokens for ended in every) if self._counts_output else 0,
            cached=cached,
            drafted=sum(ended.drafted_tokens for ended in every),
            accepted=sum(ended.accepted_tokens for ended in every),
            timings={name: max(getattr(ended, name) for ended in every) for name in TIMINGS},
        )


def _bad_end(ended: Ended, seconds: float) -> ApiError:
    if ended.finish_reason == "deadline":
        message = f"the request took longer than {seconds:g} s, with {ended.completion_tokens} tokens done"
        return ApiError(504, message, code="timeout", kind=SERVER)
    if ended.finish_reason == "failed":
        cause, _, message = (ended.error or "").partition(": ")
        if cause == InvalidRequestError.__name__:  # an error found only during generation
            return invalid(message)
        return ApiError(500, f"the request failed: {ended.error}", code="engine_error", kind=SERVER)
    return ApiError(503, f"the request was ended: {ended.finish_reason}", code=ended.finish_reason, kind=SERVER)
