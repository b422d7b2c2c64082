"""Phonemes by espeak-ng: what is made of the program's answers, with one that stands in for it, and with itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from antiphon.audio.speech import espeak
from antiphon.audio.speech.espeak import EspeakPhonemizer
from antiphon.errors import EngineError, MissingDependencyError

KNOWN = frozenset('abcdefghijklmnopqrstuvwxyzˈˌːɡɣɾβθʃʧʤʦAWÕɑɛɔɪ;:,.!?—…"()“” ')

PROGRAM = f"""#!{sys.executable}
import sys
answers = {{
    "hola amigo": "ˈola amˈiɣo\\n", "mundo": "mˈundo\\n",
    "3,5 a": "tɾˈes kˈoma θˈinko ˈa\\n", "3,5": "tɾˈes kˈoma θˈinko\\n",
    "a": "ˈa\\n", "ocho": "ˈot^ʃo\\n", "weekend": "(en)wˈi^ːkɛnd(es)\\n", "漢": "\\n",
}}
text = sys.stdin.read()
if sys.argv[1:] != ["-q", "--ipa", "--tie=^", "-v", "es", "--stdin"] or text == "roto":
    sys.exit("no such voice")
print(answers[text], end="")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / espeak.PROGRAM
    path.write_text(PROGRAM)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("program")
def test_words_keep_their_phonemes_and_marks() -> None:
    clause = EspeakPhonemizer("es", KNOWN)("¡Hola amigo! (mundo)".replace("H", "h"))
    assert clause.phonemes == "ˈola amˈiɣo! (mˈundo)"
    assert [(word.text, word.start, word.end) for word in clause.words] == [
        ("hola", 1, 5), ("amigo", 6, 11), ("mundo", 14, 19),
    ]  # fmt: skip
    assert not clause.skipped


@pytest.mark.usefixtures("program")
def test_a_word_said_as_several_is_read_by_itself() -> None:
    clause = EspeakPhonemizer("es", KNOWN)("3,5 a.")
    assert [word.phonemes for word in clause.words] == ["tɾˈes kˈoma θˈinko", "ˈa"]
    assert clause.phonemes == "tɾˈes kˈoma θˈinko ˈa."


@pytest.mark.usefixtures("program")
def test_ties_switches_and_unknown_symbols() -> None:
    phonemizer = EspeakPhonemizer("es", KNOWN)
    assert phonemizer("ocho").phonemes == "ˈoʧo"
    assert phonemizer("weekend").phonemes == "wˈiːkɛnd"
    silent = phonemizer("漢")
    assert not silent.words and silent.skipped == ("漢",)


@pytest.mark.usefixtures("program")
def test_own_pronunciations() -> None:
    phonemizer = EspeakPhonemizer("es", KNOWN).with_overrides({"Mundo": "mˈonde"})
    assert phonemizer("hola amigo mundo, [yo](/ʤˈo/)").phonemes == "ˈola amˈiɣo mˈonde, ʤˈo"


@pytest.mark.usefixtures("program")
def test_a_program_that_fails_is_told() -> None:
    with pytest.raises(EngineError, match="could not read 'roto': no such voice"):
        EspeakPhonemizer("es", KNOWN)("roto")


def test_without_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        MissingDependencyError, match=r"'fr' needs the program espeak-ng, which is not .*apt install espeak-ng"
    ):
        EspeakPhonemizer("fr", KNOWN)


@pytest.mark.skipif(not espeak.is_installed(), reason="espeak-ng is not installed")
@pytest.mark.parametrize(
    ("language", "text", "words"),
    [("es", "Hola, ¿cómo estás?", 3), ("fr", "Les enfants ont 25 chats.", 5), ("it", "Che bella giornata!", 3)],
)
def test_the_program_itself(language: str, text: str, words: int) -> None:
    clause = EspeakPhonemizer(language, KNOWN)(text)
    assert len(clause.words) == words and not clause.skipped and clause.phonemes[-1] == text[-1]
