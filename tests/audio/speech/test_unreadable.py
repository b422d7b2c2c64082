"""What cannot be read is reported: whole runs, each once, and not too many."""

from __future__ import annotations

import pytest

from antiphon.audio.speech.unreadable import MAX_RUN_CHARACTERS, MAX_RUNS, Unreadable, unreadable_in_english


@pytest.mark.parametrize(
    ("text", "runs", "characters"),
    [
        ("plain text, 5 kg", (), 0),
        ("naïve Søren paid €5 for α and ½ — “so”…", (), 0),
        ("Hello 漢字 😀 world", ("漢字 😀",), 3),
        ("say 漢字 and 漢字 again", ("漢字",), 4),
        ("Tokyo東京!", ("東京",), 2),
        ("привет, мир and नमस्ते", ("привет, мир", "नमस्ते"), 16),
        ("a line ──── and ■ are decoration、。", (), 0),
        ("[漢字](/kˈænʤi/) is given", (), 0),
    ],
)
def test_runs(text: str, runs: tuple[str, ...], characters: int) -> None:
    found = unreadable_in_english(text)
    assert (found.runs, found.num_characters) == (runs, characters)


def test_words_with_pronunciations_are_readable() -> None:
    assert unreadable_in_english("漢字 is 東京", {"漢字"}).runs == ("東京",)


def test_a_report_is_bounded() -> None:
    found = Unreadable()
    found.add("漢" * 1000)
    for number in range(100):
        found.add(chr(0x4E00 + number))
    assert len(found.runs) == MAX_RUNS and found.num_characters == 1100
    assert found.runs[0] == "漢" * (MAX_RUN_CHARACTERS - 1) + "…"
