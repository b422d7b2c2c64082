"""`Hypotheses`: transcripts of a window that grows, and their settled words."""

from __future__ import annotations

from itertools import accumulate

from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.window.decoding import Recogniser, WindowJob
from antiphon.runtime.transcription.words.timestamps import split_words

#: Words at the end of a hypothesis that it never settles: its sound may have ended inside them.
UNSURE_WORDS = 3
#: Maximum tokens of the text before a window that are given to it as context.
CONTEXT_TOKENS = 64

Tokens = tuple[int, ...]


class Hypotheses:
    """Transcripts of a growing window. Tokens shared by two in a row are `settled`: later ones begin with them."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser
        self.last: Tokens = ()
        self.settled: Tokens = ()

    def add(self, tokens: Tokens, language: str | None) -> None:
        """Add a hypothesis; ignore it if it contradicts the settled tokens."""
        if tokens[: len(self.settled)] != self.settled:
            return
        self.settled = self._agreed(tokens, language or "en")
        self.last = tokens

    def clear(self) -> None:
        """Reset for the next window."""
        self.last = self.settled = ()

    def tokens_of(self, job: WindowJob, options: TranscriptionOptions) -> Tokens:
        """Return the text tokens of a finished job; empty if it is silence and nothing was settled."""
        if job.best.is_silence(options) and not self.settled:
            return ()
        return tuple(token for token in job.best.tokens if token < self._recogniser.tokens.end)

    def _agreed(self, tokens: Tokens, language: str) -> Tokens:
        """Return the whole words that this hypothesis and the last one share, and at least the settled tokens."""
        begins = self._word_starts(self.last, language)
        last = self.last[: begins[-UNSURE_WORDS] if len(begins) >= UNSURE_WORDS else 0]
        count = 0
        for before, now in zip(last, tokens, strict=False):
            if before != now:
                break
            count += 1
        # The word in which the common part ends may go on: it is not settled.
        whole = max((start for start in self._word_starts(tokens, language) if start <= count), default=0)
        return tokens[: max(whole, len(self.settled))]

    def _word_starts(self, tokens: Tokens, language: str) -> list[int]:
        words = split_words(tokens, self._recogniser.tokenizer, language)
        return list(accumulate((count for _, count in words[:-1]), initial=0)) if words else []
