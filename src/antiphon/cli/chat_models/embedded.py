"""`EmbeddedModel`: a chat model that runs in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from antiphon.cli.chat_models.interface import AnswerStats
from antiphon.engine.request import FinishReason
from antiphon.errors import InvalidRequestError
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.frontend.streams import Stream
from antiphon.runtime.loading.loading import LoadedModel

#: The longest answer, unless a setting says otherwise.
DEFAULT_TOKENS = 1024


class EmbeddedModel:
    """A `ChatModel` on an engine. A model that does not generate, or has no chat template, is rejected."""

    def __init__(self, engine: Engine, loaded: LoadedModel, name: str | None = None) -> None:
        self.name = name or loaded.name
        self._engine = engine
        self._loaded = loaded

    @staticmethod
    def check(loaded: LoadedModel) -> None:
        """Before an engine is started for it."""
        loaded.causal_lm()
        if loaded.chat_template is None:
            raise InvalidRequestError(
                f"model {loaded.name!r} has no chat template; continue a text with `antiphon run --raw`"
            )

    def answer(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> EmbeddedAnswer:
        params = self._loaded.sampling.params(**{"max_tokens": DEFAULT_TOKENS, **settings})
        return EmbeddedAnswer(self._engine.stream(messages, params, model=self.name))


class EmbeddedAnswer:
    """An `AnswerStream`. An exception in the midst of the iteration does not end it: it can be continued."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._stream).text

    def cancel(self) -> None:
        self._stream.cancel()

    def stats(self) -> AnswerStats:
        return stats_of(self._stream)


def stats_of(stream: Stream) -> AnswerStats:
    """What the answer of a stream cost that has been read to its end. A greedy answer needed no seed."""
    if not stream.output.is_done:
        for _ in stream:
            pass
    completion, params = stream.completion(), stream.output.request.params
    timings = completion.timings
    return AnswerStats(
        completion.prompt_tokens,
        completion.cached_tokens,
        len(completion.token_ids),
        timings.time_to_first_token,
        1 / timings.time_per_output_token if timings.time_per_output_token else 0.0,
        FinishReason(completion.finish_reason).value,
        params.seed if params.temperature > 0 else None,
        completion.drafted_tokens,
        completion.accepted_tokens,
    )
