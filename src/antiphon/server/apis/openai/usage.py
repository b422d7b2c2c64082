"""The `usage` field of OpenAI's answers and chunks."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.runtime.calls.events import TextDelta
from antiphon.runtime.calls.tasks import Generate
from antiphon.server.generation.parameters.request_schemas import StreamOptions
from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.generation.text.wire_format import WireEvent


def usage_field(usage: TokenUsage, with_timings: bool | None) -> WireEvent:
    content = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {
            "accepted_prediction_tokens": usage.accepted,
            "rejected_prediction_tokens": usage.drafted - usage.accepted,
        },
    }
    return content | ({"timings": usage.timing_fields()} if with_timings else {})


class StreamedUsage:
    """`usage` field of chunks: null before the last one, or the tokens so far with `continuous_usage_stats`."""

    def __init__(self, options: StreamOptions | None, calls: Sequence[Generate]) -> None:
        self.is_asked = options is not None and bool(options.include_usage)
        self.is_continuous = self.is_asked and options is not None and bool(options.continuous_usage_stats)
        self._prompt_tokens = [len(call.prompt) for call in calls for _ in range(call.n)]
        self._output_tokens = [0] * len(self._prompt_tokens)

    def count(self, number: int, event: TextDelta) -> None:
        self._output_tokens[number] += len(event.token_ids)

    def tail(self, number: int) -> WireEvent:
        """Return the `usage` field of a choice's chunk; empty if the request does not ask for usage."""
        if not self.is_continuous:
            return {"usage": None} if self.is_asked else {}
        prompt, output = self._prompt_tokens[number], self._output_tokens[number]
        return {"usage": {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}}
