"""What of a text cannot be read, for reports: every run of it once, shortened, and not too many."""

from __future__ import annotations

from collections.abc import Container

from antiphon.audio.speech.words import clean, joined_runs, words_of

#: Runs that a report names, and how much of each.
MAX_RUNS = 32
MAX_RUN_CHARACTERS = 40


class Unreadable:
    """Runs of text that were skipped: the first `MAX_RUNS` different ones, and how many characters all of them have."""

    def __init__(self) -> None:
        self.num_characters = 0
        self._runs: dict[str, None] = {}

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self._runs)

    def add(self, run: str) -> None:
        self.num_characters += sum(not character.isspace() for character in run)
        run = " ".join(run.split())
        if len(run) > MAX_RUN_CHARACTERS:
            run = run[: MAX_RUN_CHARACTERS - 1] + "…"
        if len(self._runs) < MAX_RUNS:
            self._runs.setdefault(run)


def unreadable_in_english(text: str, pronounced: Container[str] = ()) -> Unreadable:
    """What an English voice cannot read of a text, known before it is read: what is not written in Latin letters.

    `pronounced` are words, in small letters, that the caller gives pronunciations for.
    """
    found = Unreadable()
    if text.isascii():
        return found
    text = clean(text)
    words = words_of(text)
    indices = [
        index
        for index, word in enumerate(words)
        if not word.said and word.phonemes is None and word.text.lower() not in pronounced
    ]
    for run in joined_runs(text, words, indices):
        found.add(run)
    return found
