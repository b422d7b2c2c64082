"""The `usage` field of a response."""

from __future__ import annotations

from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.generation.text.wire_format import WireEvent


def response_usage(usage: TokenUsage, reasoning_tokens: int, with_timings: bool | None) -> WireEvent:
    content = {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": min(reasoning_tokens, usage.completion)},
        "total_tokens": usage.total,
    }
    return content | ({"timings": usage.timing_fields()} if with_timings else {})
