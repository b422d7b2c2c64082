"""Pronunciation on the real dictionaries, held against Hibari's own port of misaki."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from antiphon import Engine
from antiphon.audio.speech.lexicon import Accent, Context, Lexicon, stressed
from antiphon.audio.speech.phonemes import Phonemizer
from antiphon.runtime.speech.pronunciation import Pronunciation

LEXICON = Lexicon(
    {"cat": "kˈæt", "walk": "wˈɔk", "date": "dˈAt", "Bob": "bˈɑb", "that": {"DEFAULT": "ðæt", "DT": "ðˈæt"},
     "record": {"DEFAULT": "ɹˈɛkəɹd", "VERB": "ɹəkˈɔɹd"}, "box": "bˈɑks", "stop": "stˈɑp", "try": "tɹˈI",
     "C": "sˈi", "N": "ˈɛn"},
    {"bus": "bˈʌs"},
    Accent.AMERICAN,
)  # fmt: skip


@pytest.mark.parametrize(
    ("word", "tag", "phonemes"),
    [
        ("cat", "NN", "kˈæt"),
        ("Cat", "NNP", "kˈæt"),
        ("cats", "NNS", "kˈæts"),
        ("boxes", "NNS", "bˈɑksᵻz"),
        ("Bob's", "NNP", "bˈɑbz"),
        ("tries", "VBZ", "tɹˈIz"),
        ("walked", "VBD", "wˈɔkt"),
        ("dated", "VBD", "dˈAɾᵻd"),
        ("stopped", "VBD", "stˈɑpt"),
        ("tried", "VBD", "tɹˈId"),
        ("dating", "VBG", "dˈAɾɪŋ"),
        ("stopping", "VBG", "stˈɑpɪŋ"),
        ("record", "NN", "ɹˈɛkəɹd"),
        ("record", "VB", "ɹəkˈɔɹd"),
        ("That", "DT", "ðˈæt"),
        ("That", "IN", "ðˌæt"),
        ("CNN", "NNP", "sˌiˌɛnˈɛn"),
        ("CNN's", "NNP", "sˌiˌɛnˈɛnz"),
        ("blorp", "NN", None),
    ],
)
def test_entries_and_endings(word: str, tag: str, phonemes: str | None) -> None:
    assert LEXICON.pronounce(word, Context(tag, vowel_follows=False)) == phonemes


def test_small_words_follow_what_comes_after() -> None:
    for follows, the, to in ((True, "ði", "tʊ"), (False, "ðə", "tə")):
        assert LEXICON.pronounce("the", Context("DT", follows)) == the
        assert LEXICON.pronounce("to", Context("TO", follows)) == to
    assert stressed("ðæt", 0.5) == "ðˌæt" and stressed("kˈæt", 2.0) == "kˈæt" and stressed("hm", 2.0) == "hm"


@pytest.fixture(scope="module")
def pronunciation() -> Iterator[Pronunciation]:
    with Engine(kv_bytes=1 << 20) as engine:
        yield Pronunciation.from_catalog(engine.detectors)


@pytest.fixture(scope="module")
def american(pronunciation: Pronunciation) -> Phonemizer:
    return pronunciation.phonemizer(Accent.AMERICAN)


SENTENCES = [
    "Hello there.",
    "I read the record yesterday, and I will read it again to Anna.",
    "She used to live in Iowa, but she is used to rain.",
    "Do you object to the object? The wind will wind around.",
    "NASA and the FBI met in the USA.",
    "That that is, is.",
    "Kubernetes and PyTorch are used by Zsofia's team, running quickly.",
    "The quick brown fox jumps over the lazy dog's tail, stopped, and started dating.",
    "What a day! Isn't it?",
    "He's the one who'd walked in.",
    "The committee's chairman presented a present to the guests.",
    "They refuse to permit us to obtain the refuse permit.",
    "A bass guitar and a sea bass, both on sale in the mall.",
    "Please close the door; the store is close to the beach.",
    "Several politicians in Washington criticized the proposals.",
    "An hour ago an honest European gave us a unique gift.",
    "Mice, geese and oxen were fed, washed and groomed.",
    "Her tears fell where the paper tears.",
]


@pytest.mark.weights
def test_agrees_with_another_reader(american: Phonemizer) -> None:
    g2p = pytest.importorskip("hibari.g2p")
    theirs = g2p.G2P()
    same = total = 0
    for sentence in SENTENCES:
        ours, wanted = american(sentence).phonemes.split(), theirs(sentence).split()
        assert len(ours) == len(wanted)
        total += len(wanted)
        same += sum(a == b for a, b in zip(ours, wanted, strict=True))
    assert same / total > 0.98


@pytest.mark.weights
def test_accents_and_overrides(pronunciation: Pronunciation, american: Phonemizer) -> None:
    british = pronunciation.phonemizer(Accent.BRITISH)
    assert american("The dance.").phonemes != british("The dance.").phonemes
    own = american.with_overrides({"GIF": "ʤˈɪf"})
    assert "ʤˈɪf" in own("A gif!").phonemes and "ʤˈɪf" not in american("A gif!").phonemes
    assert american("[lead](/lˈid/) on").phonemes == "lˈid ˌɔn"


@pytest.mark.weights
def test_every_piece_belongs_to_its_word(american: Phonemizer) -> None:
    clause = american("Well, Dr. Wu paid $5 — twice!")
    assert [word.text for word in clause.words] == ["Well", "Dr.", "Wu", "paid", "$5", "twice"]
    assert "".join(piece for piece, _ in clause.pieces()) == clause.phonemes
    owners = [owner for _, owner in clause.pieces() if owner >= 0]
    assert owners == list(range(6))
    assert re.search(r"—", clause.phonemes) and clause.phonemes.endswith("!")


@pytest.mark.weights
def test_what_cannot_be_read_is_named(american: Phonemizer) -> None:
    clause = american("Hello 漢字 😀, world привет")
    assert [word.text for word in clause.words] == ["Hello", "world"] and clause.skipped == ("漢字 😀", "привет")
    assert clause.words[0].after == ","  # of what was skipped
    assert not american("😀 … !!").words and american("😀 … !!").skipped == ("😀",)
    assert not american("Søren of Łódź, straße").skipped


@pytest.mark.weights
def test_the_letter_a_is_no_article(american: Phonemizer) -> None:
    assert american("4:30 a.m.").phonemes.split()[-2] == "ˈA" and american("a cat").phonemes.startswith("ɐ ")
