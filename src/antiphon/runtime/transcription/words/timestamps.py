"""Times of words: the tokens of a transcript, aligned with the sound by their cross-attention.

Heads that follow the sound put each token's attention where it is spoken. Normalised, smoothed and averaged they make a
matrix through which dynamic time warping finds the cheapest monotonic path; where it steps from one token to the next,
a token begins.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from antiphon.text.tokenization.tokenizer import Tokenizer

Floats = NDArray[np.float32]

FILTER_WIDTH = 7
STATES_PER_SECOND = 50
#: Languages that are written without spaces between words: each character is timed by itself.
UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
PREPENDED = frozenset("\"'“¿([{-")
APPENDED = frozenset("\"'.。,，!！?？:：”)]}、")
SENTENCE_ENDS = frozenset(".。!！?？")
#: Maximum median length of a word in seconds. No word of ordinary speech takes longer than twice the median.
LONGEST_MEDIAN = 0.7


@dataclass(frozen=True)
class AlignedWord:
    """A word with its tokens; times are seconds of the window."""

    text: str
    tokens: tuple[int, ...]
    start: float
    end: float
    probability: float
    #: Time at which the word's attention is strongest.
    focus: float | None = None


def align_words(
    attention: Floats,
    tokens: Sequence[int],
    probabilities: Sequence[float],
    tokenizer: Tokenizer,
    language: str,
    num_states: int,
    first_row: int,
) -> list[AlignedWord]:
    """Return the words of `tokens` (text only) with their times and mean probabilities.

    `attention` is [heads, rows, states]. From `first_row` on there are len(tokens) + 1 rows, which predict each token
    and then the end. Only the first `num_states` states hold sound.
    """
    if not tokens or num_states < 1:
        return []
    cost = _cost_matrix(attention[:, :, :num_states])[first_row : first_row + len(tokens) + 1]
    starts = _token_starts(cost) / STATES_PER_SECOND  # [len(tokens) + 1]
    words = []
    position = 0
    for text, count in split_words(tokens, tokenizer, language):
        end = position + count
        first, last = (round(float(starts[index]) * STATES_PER_SECOND) for index in (position, end))
        heard = -cost[position:end, first : max(last, first + 1)].mean(axis=0)
        words.append(
            AlignedWord(
                text,
                tuple(tokens[position:end]),
                float(starts[position]),
                float(starts[end]),
                float(np.mean(probabilities[position:end])),
                (first + int(np.argmax(heard))) / STATES_PER_SECOND,
            )
        )
        position = end
    return merge_punctuation(_shortened(words))


def _cost_matrix(attention: Floats) -> NDArray[np.float64]:
    """Return a matrix [rows, states], small where a token attends: normalised by column, smoothed, mean of heads."""
    weights = attention.astype(np.float64)
    weights /= np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
    weights -= weights.mean(axis=-2, keepdims=True)
    weights /= np.maximum(weights.std(axis=-2, keepdims=True), 1e-12)
    matrix: NDArray[np.float64] = -_median_filtered(weights, FILTER_WIDTH).mean(axis=0)
    return matrix


def _median_filtered(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the median over `width` neighbours along the last axis, with mirrored ends."""
    half = width // 2
    if values.shape[-1] <= half:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(half, half)], mode="reflect")
    spans = np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1)
    return np.partition(spans, half, axis=-1)[..., half]


def _token_starts(cost: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the first column of each row on the cheapest path from corner to corner (right, down or both)."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    step = np.zeros((rows + 1, columns + 1), dtype=np.int8)
    # Cells of an antidiagonal depend only on the two before it, so a whole antidiagonal is computed at once.
    for diagonal in range(2, rows + columns + 1):
        row = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        column = diagonal - row
        both, down, right = total[row - 1, column - 1], total[row - 1, column], total[row, column - 1]
        choice = np.where((both < down) & (both < right), 0, np.where((down < both) & (down < right), 1, 2))
        step[row, column] = choice
        total[row, column] = cost[row - 1, column - 1] + np.choose(choice, (both, down, right))
    starts = np.zeros(rows, dtype=np.int64)
    row_, column_ = rows, columns
    while row_ > 0:
        starts[row_ - 1] = max(column_ - 1, 0)
        if column_ == 0:
            row_ -= 1
            continue
        choice_ = step[row_, column_]
        row_, column_ = row_ - (choice_ != 2), column_ - (choice_ != 1)
        if row_ and column_ == 0:
            starts[:row_] = 0
            break
    return starts


def split_words(tokens: Sequence[int], tokenizer: Tokenizer, language: str) -> list[tuple[str, int]]:
    """Return the text and number of tokens of each word. Tokens that share a character stay together."""
    pieces: list[tuple[str, int]] = []
    held, count = b"", 0
    for token in tokens:
        held += tokenizer.token_bytes(token)
        count += 1
        try:
            text = held.decode("utf-8")
        except UnicodeDecodeError:
            continue
        pieces.append((text, count))
        held, count = b"", 0
    if count:
        pieces.append((held.decode("utf-8", errors="replace"), count))
    if language in UNSPACED:
        return pieces
    words: list[tuple[str, int]] = []
    for text, length in pieces:
        if text.startswith(" ") or text.strip() in string.punctuation or not words:
            words.append((text, length))
        else:
            words[-1] = (words[-1][0] + text, words[-1][1] + length)
    return words


def _shortened(words: list[AlignedWord]) -> list[AlignedWord]:
    """Cut the silence that fell to words around the end of a sentence."""
    lengths = [word.end - word.start for word in words if word.end > word.start]
    if not lengths:
        return words
    longest = 2 * min(LONGEST_MEDIAN, float(np.median(lengths)))
    out = words[:1]
    for before, word in pairwise(words):
        if word.end - word.start > longest:
            if word.text.strip() in SENTENCE_ENDS:
                word = replace(word, end=word.start + longest)
            elif before.text.strip() in SENTENCE_ENDS:
                word = replace(word, start=word.end - longest)
        out.append(word)
    return out


def merge_punctuation(words: Sequence[AlignedWord]) -> list[AlignedWord]:
    """Join punctuation to the word it belongs to, which keeps its own times."""
    joined: list[AlignedWord] = []
    for word in reversed(words):
        mark = word.text.strip()
        if joined and word.text.startswith(" ") and mark in PREPENDED:
            following = joined[-1]
            joined[-1] = replace(following, text=word.text + following.text, tokens=word.tokens + following.tokens)
        else:
            joined.append(word)
    out: list[AlignedWord] = []
    for word in reversed(joined):
        if out and word.text in APPENDED and not out[-1].text.endswith(" "):
            out[-1] = replace(out[-1], text=out[-1].text + word.text, tokens=out[-1].tokens + word.tokens)
        else:
            out.append(word)
    return out


def within_segment(words: Sequence[AlignedWord], first: float, last: float, median: float) -> list[AlignedWord]:
    """Return the words of a segment; cut a first or last word that reaches far beyond `first` or `last`."""
    if not words:
        return []
    out = list(words)
    head, tail = out[0], out[-1]
    if first < head.end and first - 0.5 > head.start:
        out[0] = replace(head, start=max(0.0, min(head.end - median, first)))
    tail = out[-1]
    if last > tail.start and last + 0.5 < tail.end:
        out[-1] = replace(tail, end=max(tail.start + median, last))
    return out


def median_length(words: Sequence[AlignedWord]) -> float:
    lengths = [word.end - word.start for word in words if word.end > word.start]
    return min(LONGEST_MEDIAN, float(np.median(lengths))) if lengths else 0.0
