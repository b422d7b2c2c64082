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

#: Maximum tokens of an answer, unless a setting changes it.
DEFAULT_TOKENS = 1024


class EmbeddedModel:
    """`ChatModel` on an engine. `check` rejects models that do not generate text or have no chat template."""

    def __init__(self, engine: Engine, loaded: LoadedModel, name: str | None = None) -> None:
        self.name = name or loaded.name
        self._engine = engine
        self._loaded = loaded

    @staticmethod
    def check(loaded: LoadedModel) -> None:
        """Raise unless the model can chat; call this before an engine is started."""
        loaded.causal_lm()
        if loaded.chat_template is None:
            raise InvalidRequestError(
                f"model {loaded.name!r} has no chat template; continue a text with `antiphon run --raw`"
            )

    def answer(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> EmbeddedAnswer:
        params = self._loaded.sampling.params(**{"max_tokens": DEFAULT_TOKENS, **settings})
        return EmbeddedAnswer(self._engine.stream(messages, params, model=self.name))


class EmbeddedAnswer:
    """`AnswerStream` that can be continued after an exception during its iteration."""

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
    """Read a stream to its end; return the answer's statistics, with a seed only if it was sampled."""
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
