"""OpenAI's voice names on models with many voices, with one, and with some."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from antiphon.errors import InvalidRequestError
from antiphon.runtime.voices.aliases import DEFAULT_VOICE_ALIASES, aliases_for, without_aliases
from antiphon.runtime.voices.book import VoiceBook
from antiphon.weights.catalog.catalog import catalog

OPENAI = sorted(
    ["alloy", "ash", "ballad", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer", "verse", "marin", "cedar"]
)
KOKORO = [Path(file.name).stem for file in catalog()["kokoro-82m"].files if file.name.startswith("voices/")]


def test_each_name_is_a_voice_of_its_own_on_kokoro() -> None:
    aliases = aliases_for(KOKORO, "af_heart")
    assert aliases == DEFAULT_VOICE_ALIASES and sorted(aliases) == OPENAI
    assert len(set(aliases.values())) == len(OPENAI) and set(aliases.values()) <= set(KOKORO)
    own = {name[3:]: name for name in KOKORO if name[:2] in ("af", "am", "bf", "bm")}
    assert all(aliases[name] == own[name] for name in OPENAI if name in own)


def test_all_names_are_the_one_voice_of_a_model_with_one() -> None:
    assert aliases_for(["heart"], "heart", {"narrator": "bm_george"}) == dict.fromkeys([*OPENAI, "narrator"], "heart")


def test_a_model_that_lacks_the_voice_and_one_that_has_the_name() -> None:
    aliases = aliases_for(["alloy", "af_sky", "af_nova"], "af_sky", {"echo": "am_nobody", "both": "af_sky:2+af_nova"})
    assert "alloy" not in aliases and "echo" not in aliases
    assert (aliases["nova"], aliases["onyx"], aliases["both"]) == ("af_nova", "af_sky", "af_sky:2+af_nova")


def test_aliases_in_mixtures() -> None:
    aliases = {"nova": "af_nova", "both": "af_sky+af_nova"}
    assert without_aliases("nova", aliases) == "af_nova"
    assert without_aliases("nova:0.3+af_sky:0.7", aliases) == "af_nova:0.3+af_sky:0.7"
    assert without_aliases("both", aliases) == "af_sky+af_nova"
    assert without_aliases("both+nova", aliases) == "both+af_nova"


def test_a_voice_book_takes_them(tmp_path: Path) -> None:
    files = {}
    for index, name in enumerate(("af_alloy", "am_onyx", "bm_fable")):
        path = tmp_path / f"{name}.bin"
        np.full((2, 4), index, np.float32).tofile(path)
        files[f"voices/{name}.bin"] = path
    book = VoiceBook.beside(files, 4, "some")
    assert book.style(book.parse("onyx"), 1).tolist() == [1.0] * 4
    assert book.style(book.parse("alloy:1+fable:3"), 1).tolist() == [1.5] * 4
    assert (book.parse("fable").language, book.parse("fable").weights) == ("en-gb", {"bm_fable": 1.0})
    assert {voice.name: voice.aliases for voice in book.info()}["am_onyx"] == ("onyx",)
    with pytest.raises(
        InvalidRequestError, match=r"no voice 'nobody'; choose one of: af_alloy, .* by alias: alloy, ash"
    ):
        book.parse("nobody")
