"""Text made speakable: numbers and their kin, words, clauses."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.audio.speech.clauses import MAX_CHARACTERS, Clause, ClauseSplitter
from antiphon.audio.speech.number_words import cardinal, decimal, ordinal, year
from antiphon.audio.speech.words import clean, clean_with_ends, words_of


@pytest.mark.parametrize(
    ("digits", "words"),
    [
        ("0", "zero"),
        ("13", "thirteen"),
        ("40", "forty"),
        ("99", "ninety nine"),
        ("100", "one hundred"),
        ("1250", "one thousand two hundred fifty"),
        ("1000000", "one million"),
        ("7000000000", "seven billion"),
        ("007", "seven"),
        ("9" * 40, " ".join(["nine"] * 40)),
    ],
)
def test_cardinals(digits: str, words: str) -> None:
    assert cardinal(digits) == words


def test_ordinals_years_decimals() -> None:
    assert [ordinal(n) for n in ("1", "2", "3", "5", "8", "9", "12", "20", "21", "100")] == [
        "first", "second", "third", "fifth", "eighth", "ninth", "twelfth", "twentieth", "twenty first", "one hundredth",
    ]  # fmt: skip
    assert [year(n) for n in ("1984", "1900", "2000", "2005", "2024", "1066", "1706")] == [
        "nineteen eighty four", "nineteen hundred", "two thousand", "two thousand five", "twenty twenty four",
        "ten sixty six", "seventeen oh six",
    ]  # fmt: skip
    assert decimal("3.14") == "three point one four" and decimal("0.5") == "zero point five"


def test_marks_stay_with_their_words() -> None:
    words = words_of('“Hello,” she said... "Really?!" (Yes.)')
    assert [(word.before, word.text, word.after) for word in words] == [
        ("“", "Hello", ",”"), ("", "she", ""), ("", "said", "…"), ('"', "Really", '?!"'), ("(", "Yes", ".)"),
    ]  # fmt: skip
    assert [word.after for word in words_of("J. Doe left at 5 p.m.")] == ["", "", "", "", "."]


def test_pronunciations_by_hand() -> None:
    first, second = words_of("[tomato](/təmˈɑTO/) soup")
    assert (first.text, first.phonemes, second.phonemes) == ("tomato", "təmˈɑTO", None)


def test_positions_in_the_text_are_right() -> None:
    text = "It’s $5 (or 6 kg) — see example.com!"
    for word in words_of(text):
        assert text[word.start : word.end] == word.text


def spoken(text: str, step: int | None = None, **options: int) -> list[Clause]:
    splitter = ClauseSplitter(**options)
    pieces = [text] if step is None else [text[at : at + step] for at in range(0, len(text), step)]
    out = [clause for piece in pieces for clause in splitter.push(piece)]
    return [*out, *splitter.finish()]


TEXT = (
    "Dr. Smith went to Washington, D.C. on Monday. “Really?” she asked. He said, after a while, that J. K. Rowling "
    "was there; and so on.\n\nA new paragraph without an end"
)


@pytest.mark.parametrize("step", [None, 1, 3, 17])
def test_clauses_do_not_depend_on_how_the_text_comes(step: int | None) -> None:
    clauses = spoken(TEXT, step)
    assert [clause.text for clause in clauses] == [
        "Dr. Smith went to Washington,",
        "D.C. on Monday.",
        "“Really?” she asked.",
        "He said, after a while, that J. K. Rowling was there; and so on.",
        "A new paragraph without an end",
    ]
    assert [clause.ends_sentence for clause in clauses] == [False, True, True, True, True]
    assert all(TEXT[clause.start :].startswith(clause.text) for clause in clauses)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It is Op. 27 No. 2. He played it.", 2),
        ("See Fig. 3 and p. 5. It is there.", 2),
        ("She left on Jan. 5. It rained.", 2),
        ("He lives at 12 Elm St. It is dark.", 2),
        ("He met St. John there. It rained.", 2),
        ("At 5 p.m. EST we met. It rained.", 2),
        ("He said no. Then he left.", 2),
        ("Dr. Wu of Rodeo Dr. and Mrs. Wu", 1),
    ],
)
def test_dots_of_abbreviations_end_no_sentence(text: str, sentences: int) -> None:
    assert sum(clause.ends_sentence for clause in spoken(text, first_characters=200)) == sentences


@pytest.mark.parametrize("step", [None, 1, 5, 40])
def test_clauses_grow_so_that_a_listener_has_no_wait(step: int | None) -> None:
    sentence = (
        "A little while after that, the old captain, who had seen many a storm, put down his glass, "
        "looked at the sky, and told the men, all eleven of them, to take in the sails, for the wind would turn."
    )
    clauses = [clause.text for clause in spoken(f"{sentence} {sentence} And so it was.", step)]
    assert clauses[:3] == [
        "A little while after that,",
        "the old captain, who had seen many a storm,",
        "put down his glass, looked at the sky, and told the men, all eleven of them, to take in the sails, "
        "for the wind would turn.",
    ]
    assert clauses[3:] == [sentence, "And so it was."]


PEOPLE = "about twelve hundred people paid nine dollars each"


@pytest.mark.parametrize(
    ("room", "second"),
    [
        (10, PEOPLE),  # not enough for anything: as little as can be
        (60, PEOPLE),
        (75, f"{PEOPLE} to hear the concert,"),
        (100, f"{PEOPLE} to hear the concert,"),
        (300, f"{PEOPLE} to hear the concert, which took place in the open air."),
    ],
)
def test_clauses_fit_into_the_room_there_is(room: int, second: str) -> None:
    text = (
        "On the third day of March, about twelve hundred people paid nine dollars each to hear the concert, which took "
        "place in the open air. It rained."
    )
    splitter = ClauseSplitter()
    clauses = [next(splitter.push(text))]
    splitter.room = room
    clauses += [*splitter.push(""), *splitter.finish()]
    assert clauses[0].text == "On the third day of March,"
    assert clauses[1].text == second
    assert " ".join(clause.text for clause in clauses) == text
    assert all(text[clause.start :].startswith(clause.text) for clause in clauses)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("It's important to be kind and considerate when making decisions.", "It's important to be kind"),
        ("He might have been made amiable himself, which means he was.", "He might have been made amiable himself,"),
        ("His leisure time suggests today that all is well.", "His leisure time suggests today"),
        (
            "Her uncle's cousin's generous fortune amazed everybody in town the day before.",
            "Her uncle's cousin's generous fortune amazed everybody",
        ),
        (
            "Elizabeth's neighbours generously offered everybody the best seats.",
            "Elizabeth's neighbours generously offered everybody",
        ),
        ("The capital of France is Paris. It is large.", "The capital of France is Paris."),
        ("It is a rather long way to go. Really.", "It is a rather long way to go."),  # little would be left
        ("Sure! I can help you with that.", "Sure!"),
    ],
)
def test_a_first_clause_that_hurries_ends_with_a_phrase(text: str, first: str) -> None:
    splitter = ClauseSplitter(hurries=True)
    clauses = [*splitter.push(text + " "), *splitter.finish()]
    assert clauses[0].text == first
    assert " ".join(clause.text for clause in clauses) == text
    by_letters = ClauseSplitter(hurries=True)
    early = [clause for letter in text for clause in by_letters.push(letter)]
    assert text.startswith(early[0].text) and len(early[0].text) <= len(first)


@pytest.mark.parametrize("text", ["word " * 1000, "x" * 5000, "word and " * 500, "word " * 200 + "and more " * 200])
def test_no_clause_is_too_long_where_there_is_little_room(text: str) -> None:
    splitter = ClauseSplitter()
    clauses = [next(splitter.push(text))]
    splitter.room = 30
    clauses += [*splitter.push(""), *splitter.finish()]
    assert all(len(clause.text) <= 2 * MAX_CHARACTERS for clause in clauses)


def test_a_sentence_waits_until_its_end_is_certain() -> None:
    splitter = ClauseSplitter()
    assert not list(splitter.push("It cost 3."))
    assert not list(splitter.push("14 dollars."))
    assert [clause.text for clause in splitter.push(" Then")] == ["It cost 3.14 dollars."]


def test_long_text_is_cut_everywhere() -> None:
    assert all(len(clause.text) <= 2 * MAX_CHARACTERS for clause in spoken("word " * 2000))
    assert all(len(clause.text) <= 2 * MAX_CHARACTERS for clause in spoken("x" * 5000))
    begun = time.thread_time()
    assert len(spoken("This is a sentence, right? " * 3700)) >= 3700
    assert time.thread_time() - begun < 10


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300), st.integers(1, 40))
@example(".", 1)
@pytest.mark.long("150 random texts are prepared for speech")
def test_nothing_in_a_text_is_lost_or_said_twice(text: str, step: int) -> None:
    def letters(parts: list[str]) -> str:
        return "".join(c for part in parts for c in part if not c.isspace())

    whole = clean(text)
    assert letters([clause.text for clause in spoken(whole, step)]) == letters([whole])
    spans = [(word.start, word.end) for word in words_of(whole)]
    assert spans == sorted(spans) and all(start < end for start, end in spans)


@pytest.mark.parametrize("unit", ["1", "a1", ".", "(", "$", "1-", "a.", "1,", "@", "a@", "/1", "-", "[", "a-1."])
def test_hostile_clauses_take_no_time(unit: str) -> None:
    text = (unit * 2 * MAX_CHARACTERS)[: 2 * MAX_CHARACTERS]  # no clause is longer
    begun = time.thread_time()
    words_of(text)
    assert time.thread_time() - begun < 2


@pytest.mark.parametrize("text", ["plain", "", "cafe\u0301 au lait", "so\u00adft, don\u2019t\n", "\u0301a", "a\u200b"])
def test_cleaned_text_has_its_ends(text: str) -> None:
    cleaned, ends = clean_with_ends(text)
    assert cleaned == clean(text)
    assert [clean(text[:end]) for end in ends] == [cleaned[: index + 1] for index in range(len(cleaned))]
