"""Markdown's marks become blanks, so that every language reads the text alone, and positions stay the same."""

from __future__ import annotations

import pytest

from antiphon.audio.speech.markdown import without_emphasis, without_marks


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("## Título\n\n- **uno**\n* _dos_\n+ `tres`", "Título uno dos tres"),
        ("Voir [la page](https://example.fr/a?b=1).", "Voir [la page ."),
        ("```js\nx\n```\n~~non~~", "x non"),
        ("3*4, snake_case, C#, #1 und (a) [b]", "3*4, snake_case, C#, #1 und (a) [b]"),
        ("[tomato](/təmˈɑːtoʊ/)", "[tomato](/təmˈɑːtoʊ/)"),
        ("a[i](b.c)", "a[i](b.c)"),
    ],
)
def test_what_is_left_of_a_text(text: str, words: str) -> None:
    left = without_emphasis(without_marks(text))
    assert len(left) == len(text) and " ".join(left.split()) == words
    assert all(found in (written, " ") for written, found in zip(text, left, strict=True))
