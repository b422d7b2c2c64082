"""Whisper's tokenizers equal OpenAI's own, which run on tiktoken, from every file that a vocabulary comes in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import InvalidRequestError, TokenizerError, UnsupportedError
from antiphon.text.tokenization.whisper_tokens import LANGUAGES, WhisperTokens, language_name
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer, tokens_from_json, tokens_from_tiktoken

if TYPE_CHECKING:
    from whisper.tokenizer import Tokenizer

#: openai-whisper is only there in `make test-all`.
BESIDE_OPENAI = pytest.mark.slow
SIZES = {"gpt2": 51864, "multilingual": 51865}
TEXT = " Hello, world! It's 1999 — naïve café 日本語テスト ♪♪ Donaudampfschifffahrtsgesellschaft   \n x\u00ad🙂 'tis"


def theirs(name: str, num_languages: int = 99) -> Tokenizer:
    from whisper.tokenizer import get_tokenizer

    if name == "gpt2":
        return get_tokenizer(False)
    return get_tokenizer(True, num_languages=num_languages, language="en", task="transcribe")


@pytest.fixture(scope="module", params=["gpt2", "multilingual"])
def pair(request: pytest.FixtureRequest) -> tuple[WhisperTokenizer, Tokenizer]:
    import whisper

    name, assets = request.param, Path(whisper.__file__).parent / "assets"
    return WhisperTokenizer(tokens_from_tiktoken(assets / f"{name}.tiktoken"), SIZES[name]), theirs(name)


@BESIDE_OPENAI
def test_special_tokens(pair: tuple[WhisperTokenizer, Tokenizer]) -> None:
    ours, reference = pair
    tokens = ours.whisper
    assert (tokens.end, tokens.start, tokens.no_speech) == (reference.eot, reference.sot, reference.no_speech)
    assert (tokens.no_timestamps, tokens.first_timestamp) == (reference.no_timestamps, reference.timestamp_begin)
    assert (tokens.transcribe, tokens.translate) == (reference.transcribe, reference.translate)
    assert (tokens.start_of_previous, tokens.start_of_model) == (reference.sot_prev, reference.sot_lm)
    assert list(tokens.languages) == sorted(reference.all_language_tokens)
    marks = {reference.transcribe, reference.translate, reference.sot, reference.sot_prev, reference.sot_lm}
    assert ours.non_speech_ids() == set(reference.non_speech_tokens) | marks | {reference.no_speech}
    assert ours.blank_ids() == {*reference.encode(" "), reference.eot}
    assert tokens.seconds(reference.timestamp_begin + 55) == pytest.approx(1.1)
    assert ours.decode([tokens.start, *ours.encode(TEXT), tokens.first_timestamp], skip_special_tokens=True) == TEXT


@BESIDE_OPENAI
def test_large_v3_has_one_language_more() -> None:
    tokens = WhisperTokens.of_vocabulary(51866)
    reference = theirs("multilingual", 100)
    assert tokens.language_id("cantonese") == reference.to_language_token("yue")
    assert tokens.first_timestamp == reference.timestamp_begin


@BESIDE_OPENAI
def test_languages() -> None:
    from whisper import tokenizer

    assert list(tokenizer.LANGUAGES) == LANGUAGES
    assert [language_name(code) for code in LANGUAGES] == list(tokenizer.LANGUAGES.values())
    tokens = WhisperTokens.of_vocabulary(51865)
    for spelled in ("de", "German", "de-AT", "GERMAN", " de_CH "):
        assert tokens.known_language(spelled) == "de"
    with pytest.raises(InvalidRequestError, match="klingon"):
        tokens.known_language("klingon")
    with pytest.raises(InvalidRequestError, match="only English"):
        WhisperTokens.of_vocabulary(51864).known_language("fr")


@BESIDE_OPENAI
def test_encoding(pair: tuple[WhisperTokenizer, Tokenizer]) -> None:
    ours, reference = pair
    assert ours.encode(TEXT) == reference.encode(TEXT)
    assert ours.decode(ours.encode(TEXT)) == TEXT

    @settings(max_examples=150, deadline=None)
    @given(st.text(max_size=40))
    def check(text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            return
        plain = ours.encode(text, parse_special=False)
        assert plain == reference.encoding.encode(text, disallowed_special=())

    check()


@pytest.mark.weights
def test_the_same_vocabulary_from_other_files(model_path: object, pair: tuple[WhisperTokenizer, Tokenizer]) -> None:
    from antiphon.weights.catalog.resolve import resolve
    from antiphon.weights.formats.open import open_checkpoint

    ours, _ = pair
    files = resolve("whisper-base" if ours.whisper.is_multilingual else "whisper-tiny.en").files
    count = ours.whisper.end
    spelled = [ours.token_bytes(token) for token in range(count)]
    assert tokens_from_json(files["tokenizer.json"])[:count] == spelled
    if not ours.whisper.is_multilingual:
        assert open_checkpoint(resolve("whisper-base.en").path).metadata["tokens"][:count] == spelled


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="32000"):
        WhisperTokens.of_vocabulary(32000)
    with pytest.raises(TokenizerError, match="256"):
        WhisperTokenizer([b"ab"] * 50257, 51865)
    for content in ("%%% 0\n", "YQ==\n", "YQ== 5\n"):
        (tmp_path / "x.tiktoken").write_text(content)
        with pytest.raises(TokenizerError):
            tokens_from_tiktoken(tmp_path / "x.tiktoken")
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": {"a": 1}}}')
    with pytest.raises(TokenizerError, match="consecutive"):
        tokens_from_json(tmp_path / "tokenizer.json")
