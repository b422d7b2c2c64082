"""The parts of word alignment equal openai-whisper's own on random input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.runtime.transcription.words.timestamps import (
    AlignedWord,
    _median_filtered,
    _token_starts,
    align_words,
    merge_punctuation,
    split_words,
)
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer, tokens_from_tiktoken
from support.models.openai_whisper import interpret_alignment

#: openai-whisper is only there in `make test-all`.
BESIDE_OPENAI = pytest.mark.slow


@pytest.fixture(scope="module")
def tokenizer() -> WhisperTokenizer:
    import whisper

    assets = Path(whisper.__file__).parent / "assets"
    return WhisperTokenizer(tokens_from_tiktoken(assets / "multilingual.tiktoken"), 51865)


@BESIDE_OPENAI
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (5, 5), (7, 40), (12, 90)])
def test_warping(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    from whisper import timing

    interpret_alignment(monkeypatch)
    cost = np.random.default_rng(sum(shape)).standard_normal(shape)
    text, time = timing.dtw_cpu(cost)
    jumps = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
    assert np.array_equal(_token_starts(cost), time[jumps])


@BESIDE_OPENAI
def test_median() -> None:
    from whisper import timing

    values = np.random.default_rng(1).standard_normal((3, 4, 60))
    assert np.allclose(_median_filtered(values, 7), timing.median_filter(torch.from_numpy(values), 7).numpy())


@BESIDE_OPENAI
@pytest.mark.parametrize(
    ("text", "language"),
    [
        (" And so, my fellow Americans: ask not — what?", "en"),
        (" It's Müller's 1,234.50 (sic) 'quote'...", "de"),
        ("今日は良い天気ですね。", "ja"),
        (" \ud55c\uad6d\uc5b4 \U0001f642 ok", "ko"),
    ],
)
def test_words(tokenizer: WhisperTokenizer, text: str, language: str) -> None:
    from whisper.tokenizer import get_tokenizer

    reference = get_tokenizer(True, language=language, task="transcribe")
    ids = tokenizer.encode(text)
    words, tokens = reference.split_to_word_tokens(ids)
    assert split_words(ids, tokenizer, language) == list(zip(words, map(len, tokens), strict=True))


@BESIDE_OPENAI
def test_punctuation_goes_to_its_word() -> None:
    from whisper import timing

    texts = [" And", " so", ",", ' "', "my", '"', " -", " dear", "!"]
    words = [AlignedWord(text, (i,), i, i + 1, 1.0) for i, text in enumerate(texts)]
    theirs = [timing.WordTiming(w.text, list(w.tokens), w.start, w.end, 1.0) for w in words]
    timing.merge_punctuations(theirs, "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、")
    got = [(word.text, list(word.tokens), word.start, word.end) for word in merge_punctuation(words)]
    assert got == [(w.word, w.tokens, w.start, w.end) for w in theirs if w.word]


@BESIDE_OPENAI
def test_tokens_along_a_diagonal(tokenizer: WhisperTokenizer) -> None:
    """Attention that moves on by ten states a token gives words of a fifth of a second a token."""
    ids = tokenizer.encode(" one two three four")
    rows = 4 + len(ids) + 1
    attention = np.full((2, rows, 1500), 1e-4, np.float32)
    for row in range(len(ids) + 1):
        attention[:, 3 + row, row * 10 : row * 10 + 10] = 1.0
    words = align_words(attention, ids, [0.5] * len(ids), tokenizer, "en", 10 * (len(ids) + 1), 3)
    assert [word.text for word in words] == [" one", " two", " three", " four"]
    assert [word.start for word in words] == pytest.approx([0.0, 0.2, 0.4, 0.6], abs=0.05)
    assert all(word.probability == 0.5 for word in words)
    assert align_words(attention, [], [], tokenizer, "en", 100, 3) == []
