"""The usage of a response, from that of a chat."""

from __future__ import annotations

from typing import Any


def response_usage(usage: dict[str, Any], reasoning_tokens: int) -> dict[str, Any]:
    made = {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {**usage["prompt_tokens_details"], "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": min(reasoning_tokens, usage["completion_tokens"])},
        "total_tokens": usage["total_tokens"],
    }
    return made | ({"timings": usage["timings"]} if "timings" in usage else {})
