"""Ranges of tokens that a transcript's rules allow next, for `edit_logits`."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.engine.transcript_rules import TranscriptRules

#: Row of `LogitEditRows.spans`: keep_from, keep_until, gap_from, gap_until, timestamps.
Span = tuple[int, int, int, int, int]


def whole(vocab_size: int) -> Span:
    """Return the span of a row that keeps every token."""
    return 0, vocab_size, 0, 0, -1


def transcript_span(rules: TranscriptRules, tokens: Sequence[int], vocab_size: int) -> Span:
    """Return the span that may follow all tokens of a request, after the opening. Blanks are banned separately."""
    length, first = len(tokens) - rules.begin, rules.first_timestamp
    if first is None:
        return 0, min(rules.end_id + 1, vocab_size), 0, 0, -1
    if length == 0:
        limit = vocab_size if rules.max_initial is None else min(first + rules.max_initial + 1, vocab_size)
        return first, limit, 0, 0, -1
    # The token before the first timestamp, which asks for a transcript without timestamps, is never allowed.
    was_timestamp = tokens[-1] >= first
    follows_timestamp = length < 2 or tokens[-2] >= first
    if was_timestamp and follows_timestamp:
        return 0, first - 1, 0, 0, -1
    last = next((token for token in reversed(tokens[rules.begin :]) if token >= first), None)
    # Segments are not empty: a timestamp may repeat only if it ends one segment and begins the next.
    begin = first if last is None else last if was_timestamp else last + 1
    return rules.end_id if was_timestamp else 0, vocab_size, first - 1, begin, first
