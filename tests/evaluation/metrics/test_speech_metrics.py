"""Error rates are jiwer's after Whisper's normalisation, and opinions those of speechmos."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import SimpleNamespace

import jiwer
import numpy as np
import pytest

from antiphon.errors import AudioError, MissingDependencyError
from antiphon.evaluation.metrics import opinion
from antiphon.evaluation.metrics.speech import (
    Alignment,
    align_characters,
    align_words,
    normalizer,
)
from antiphon.evaluation.metrics.statistics import ratio_of_sums
from support.sound.heard_words import SENTENCES, word_errors

#: openai-whisper and speechmos are only there in `make test-all`.
BESIDE_OPENAI = pytest.mark.slow


def error_rate(
    align: Callable[[str, str], Alignment], said: list[str], heard: list[str], language: str = "en"
) -> float:
    """The rate of a corpus after Whisper's normalisation, as the tasks compute it from their items."""
    normalize = normalizer(language)
    found = [align(normalize(one), normalize(other)) for one, other in zip(said, heard, strict=True)]
    return ratio_of_sums(np.array([(one.errors, one.length) for one in found], dtype=float))


def pairs(seed: int) -> tuple[list[str], list[str]]:
    """Sentences, and what a careless listener wrote."""
    source = random.Random(seed)
    heard = []
    for sentence in SENTENCES:
        words = sentence.lower().split()
        for _ in range(source.randrange(5)):
            index = source.randrange(len(words))
            words[index : index + 1] = source.choice([[], ["um", words[index]], ["house"], [words[index][:-1]]])
        heard.append(" ".join(words))
    return list(SENTENCES), heard


@BESIDE_OPENAI
@pytest.mark.parametrize("seed", range(3))
def test_error_rates_are_jiwers(seed: int) -> None:
    from whisper.normalizers import EnglishTextNormalizer

    said, heard = pairs(seed)
    normalize = EnglishTextNormalizer()
    a, b = [normalize(text) for text in said], [normalize(text) for text in heard]
    words, characters = error_rate(align_words, said, heard), error_rate(align_characters, said, heard)
    assert words == pytest.approx(jiwer.wer(a, b), abs=1e-12)
    assert characters == pytest.approx(jiwer.cer(a, b), abs=1e-12)
    assert 0 < characters < words < 0.5


@BESIDE_OPENAI
def test_a_corpus_is_weighed_by_its_words() -> None:
    said, heard = ["the cat sat on the mat by the door", "no"], ["The cat sat on the mat by the door.", "yes"]
    assert error_rate(align_words, said, heard) == pytest.approx(1 / 10)


def test_alignments_count_each_kind_of_error() -> None:
    assert align_words("a b c d", "a x c") == Alignment(hits=2, substitutions=1, deletions=1, insertions=0)
    assert align_words("a b", "a new b") == Alignment(hits=2, substitutions=0, deletions=0, insertions=1)
    assert align_characters("abc", "abd") == Alignment(hits=2, substitutions=1, deletions=0, insertions=0)
    found = Alignment(4, 1, 1, 1)
    assert (found.errors, found.length) == (3, 6)


def test_alignments_are_the_least_changes() -> None:
    source = random.Random(0)
    for _ in range(300):
        said = source.choices("abcd", k=source.randrange(9))
        heard = source.choices("abcd", k=source.randrange(9))
        found = align_words(" ".join(said), " ".join(heard))
        assert found.errors == word_errors(said, heard)
        assert found.length == len(said)
        assert found.hits + found.substitutions + found.insertions == len(heard)


@BESIDE_OPENAI
def test_silence_that_is_heard_as_silence_has_no_error() -> None:
    assert error_rate(align_words, [""], [""]) == 0.0
    assert error_rate(align_words, ["", "(music)"], ["", "hello there"]) == 2.0


@BESIDE_OPENAI
def test_numbers_spelling_and_short_forms_are_no_errors_in_english() -> None:
    said = "Mr. Brown's colour cost twenty-five dollars, didn't it?"
    assert error_rate(align_words, [said], ["mister browns color cost $25 did not it"]) < 0.3
    assert normalizer()("The colour of twenty-five cars, um, isn't grey.") == "the color of 25 cars is not gray"


@BESIDE_OPENAI
def test_other_languages_keep_their_letters() -> None:
    assert normalizer("de")("Größe, Maße; (leise) Übung!") == "größe maße übung"
    assert normalizer("ja")("東京。") == "東 京"
    assert error_rate(align_words, ["東京都"], ["東京"], "ja") == pytest.approx(1 / 3)


# -- opinions -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.3, 9.01, 12.7])
def test_opinions_are_those_of_speechmos(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its P.808 network needs librosa and is not compared, so librosa's part in it is empty."""
    empty = SimpleNamespace(melspectrogram=lambda y, hop_length, n_mels, **_: np.zeros((n_mels, len(y) // 160)))
    monkeypatch.setitem(sys.modules, "librosa", SimpleNamespace(feature=empty, power_to_db=lambda x, ref: x))
    monkeypatch.delitem(sys.modules, "speechmos.dnsmos", raising=False)
    from speechmos import dnsmos

    source = np.random.default_rng(0)
    time = np.arange(int(seconds * 16_000)) / 16_000
    sound = 0.3 * np.sin(2 * np.pi * 180 * time) * (np.sin(5 * time) > 0) + 0.01 * source.normal(size=len(time))
    sound = sound.astype(np.float32)
    theirs = dnsmos.run(sound, 16_000)
    ours = opinion.dnsmos(sound)
    assert ours.signal == pytest.approx(theirs["sig_mos"], abs=1e-5)
    assert ours.background == pytest.approx(theirs["bak_mos"], abs=1e-5)
    assert ours.overall == pytest.approx(theirs["ovrl_mos"], abs=1e-5)
    assert len({round(value, 3) for value in (ours.signal, ours.background, ours.overall)}) == 3


def test_a_sound_without_samples_is_rejected() -> None:
    with pytest.raises(AudioError, match="without samples"):
        opinion.dnsmos(np.zeros(0, np.float32))


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opinion, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"DNSMOS needs speechmos.*`pip install speechmos`"):
        opinion._weights()
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(MissingDependencyError, match=r"an error rate needs jiwer.*`pip install jiwer`"):
        align_words("a", "b")
    monkeypatch.setitem(sys.modules, "whisper.normalizers", None)
    normalizer.cache_clear()
    with pytest.raises(MissingDependencyError, match=r"needs openai-whisper.*`pip install openai-whisper`"):
        normalizer()
