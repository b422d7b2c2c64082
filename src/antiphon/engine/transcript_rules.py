"""`TranscriptRules`: grammar of a transcript, which the executor applies to logits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TranscriptRules:
    """Grammar of a transcriber's output.

    The first tokens after the prompt come from `opening`, one set of ids each (a language, a task). Then the transcript
    begins, never with a token of `blank`. With timestamps it begins with one of the first `max_initial`; they come in
    pairs except before the end, never go backwards, and one is taken wherever all timestamps together are more probable
    than the most probable text. `begin` is the index of the transcript's first token, after the opening; the prompt may
    reach beyond it and hold the transcript's first tokens. Without timestamps, only text and `end_id` are allowed.
    """

    begin: int
    end_id: int
    opening: tuple[tuple[int, ...], ...] = ()
    blank: frozenset[int] = frozenset()
    first_timestamp: int | None = None
    max_initial: int | None = 50
