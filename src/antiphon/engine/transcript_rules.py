"""`TranscriptRules`: which tokens may come next in a transcript; the executor applies them to logits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TranscriptRules:
    """The grammar of a transcriber's output.

    The first tokens after the prompt are drawn from `opening`, one set of ids each (a language, a task). Then the
    transcript begins, never with one of `blank`. With timestamps it begins with one of at most `max_initial` steps;
    they come in pairs except before the end, never go backwards, and one is taken wherever timestamps together are
    likelier than the likeliest text. `begin` is the index of the transcript's first token, after the opening; the
    prompt may reach beyond it and hold the transcript's first tokens. Without timestamps only text and the end token,
    `end_id`, are allowed.
    """

    begin: int
    end_id: int
    opening: tuple[tuple[int, ...], ...] = ()
    blank: frozenset[int] = frozenset()
    first_timestamp: int | None = None
    max_initial: int | None = 50
