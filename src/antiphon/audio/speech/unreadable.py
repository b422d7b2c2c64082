"""Text that cannot be read, for reports: every run once, shortened, up to a maximum number."""

from __future__ import annotations

from collections.abc import Container

from antiphon.audio.speech.words import clean, joined_runs, words_of

#: Maximum runs in a report, and characters of each.
MAX_RUNS = 32
MAX_RUN_CHARACTERS = 40


class Unreadable:
    """Skipped runs of text: the first `MAX_RUNS` different ones, and the number of characters of all."""

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
    """Return the text that an English voice cannot read: everything outside Latin script.

    `pronounced` are words, in small letters, for which the caller gives pronunciations.
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
