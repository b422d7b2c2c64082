"""Long texts: cut only where the tokens stay the same, and rejected early only where they are too long."""

from __future__ import annotations

import random
import time
import unicodedata
from collections.abc import Callable, Iterator
from threading import Thread

import pytest
from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as RustTokenizer

from antiphon.errors import TokenizerError, TooManyTokensError
from antiphon.text.tokenization import long_text
from antiphon.text.tokenization.file_pipeline import can_cut
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.hf_vocab import FileTokenizer
from antiphon.text.tokenization.long_text import LengthBound, segments, tail
from antiphon.text.tokenization.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from antiphon.text.tokenization.tokenizer import Tokenizer
from support.text.vocabularies import random_text, small_bpe, small_sentencepiece, small_wordpiece

WORDS = [
    "the",
    "Fox",
    "isn't",
    " ",
    "  ",
    "\n",
    "12",
    "3.14",
    ",",
    ". ",
    "色は",
    "。",
    "匂へど、",
    "é",
    "e\u0301",
    "x_y",
    "HTTPServer",
    "\t",
]


def mixed_text(source: random.Random) -> str:
    """Words, marks and blanks in any order, with some of everything else."""
    parts = [source.choice(WORDS) + source.choice(["", " ", ", ", "a", "。"]) for _ in range(source.randrange(40))]
    return "".join(parts) + random_text(source) + " and so on, and on"


TEXTS = [mixed_text(random.Random(seed)) for seed in range(300)]


def file_tokenizer() -> Tokenizer:
    return FileTokenizer(RustTokenizer.from_str(small_bpe()[1].to_str()), {})


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "bpe": lambda: tokenizer_from_gguf(small_bpe()[0]),
    "sentencepiece": lambda: tokenizer_from_gguf(small_sentencepiece()[0]),
    "wordpiece": lambda: tokenizer_from_gguf(small_wordpiece()[0]),
    "file": file_tokenizer,
}


@pytest.fixture
def short_segments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(long_text, "SEGMENT_CHARACTERS", 4)
    monkeypatch.setattr(long_text, "WINDOW_CHARACTERS", 8)
    monkeypatch.setattr("antiphon.text.tokenization.hf_vocab.SEGMENT_CHARACTERS", 4)
    yield


@pytest.mark.parametrize("kind", list(dict.fromkeys(PRE_TOKENIZERS.values())), ids=lambda kind: kind.patterns[0][:20])
@pytest.mark.usefixtures("short_segments")
def test_every_pre_tokenizer_ends_words_where_texts_are_cut(kind: PreTokenizer) -> None:
    splits = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), behavior="isolated") for p in kind.patterns])

    def words(text: str) -> list[str]:
        form = unicodedata.normalize("NFC", text) if kind.composed else text
        return [word for word, _ in splits.pre_tokenize_str(form)]

    num_cuts = 0
    for text in TEXTS:
        parts = list(segments(text))
        num_cuts += len(parts) - 1
        assert [word for part in parts for word in words(part)] == words(text)
    assert num_cuts > 300


@pytest.mark.parametrize("name", TOKENIZERS)
def test_cut_texts_have_the_same_tokens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = TOKENIZERS[name]()
    whole = [tokenizer.encode(text) for text in TEXTS]
    monkeypatch.setattr(long_text, "SEGMENT_CHARACTERS", 4)
    monkeypatch.setattr("antiphon.text.tokenization.hf_vocab.SEGMENT_CHARACTERS", 4)
    assert [tokenizer.encode(text) for text in TEXTS] == whole


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_text_that_fits_is_never_rejected_and_one_token_more_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_text, "SHORT_CHARACTERS", 0)
    monkeypatch.setattr(long_text, "WINDOW_CHARACTERS", 8)
    monkeypatch.setattr("antiphon.text.tokenization.vocabulary.SEGMENT_CHARACTERS", 0)
    tokenizer = TOKENIZERS[name]()
    for text in (*TEXTS, " " * 500, "\u2581 " * 200, "e\u0301\u0302" * 100, "a" * 3000, "\u1100\u1161\u11a8" * 99):
        ids = tokenizer.encode(text)
        assert tokenizer.encode(text, max_tokens=len(ids)) == ids
        with pytest.raises(TooManyTokensError, match=f"has .* tokens; {len(ids) - 1} are allowed"):
            tokenizer.encode(text, max_tokens=len(ids) - 1)


def test_a_long_text_is_rejected_by_its_bytes() -> None:
    tokens = [bytes([byte]) for byte in range(256)] + [b"the", b" the", b" " * 64]
    bound = LengthBound(tokens)
    bound.check("the " * 100_000, 100_000)
    with pytest.raises(TooManyTokensError) as raised:
        bound.check("then" * 100_000, 100_000)
    assert raised.value.num_tokens <= 4 * 100_000
    bound.check(" " * 400_000, 6250)
    bound.check("é" * 40_000, 80_000)


def test_composition_never_shortens_a_window_by_more_than_the_slack() -> None:
    bound = LengthBound([bytes([byte]) for byte in range(256)], is_composed=True)
    for text in ("e\u0301" * 50_000, "\u03b1\u0313\u0301\u0345" * 30_000, "\u1100\u1161\u11a8" * 40_000):
        bound.check(text, len(unicodedata.normalize("NFC", text).encode()))


def test_a_run_that_cannot_be_cut_is_bounded() -> None:
    with pytest.raises(TokenizerError, match="2,097,153 characters without a place"):
        list(segments("1" * (long_text.MAX_UNCUT_CHARACTERS + 1)))
    assert tail("one two three", 6) == " three"
    assert tail("1" * 10, 4) == "1111"
    assert tail("short", 10) == "short"


def test_unknown_steps_of_a_file_are_not_cut() -> None:
    rust = RustTokenizer.from_str(small_bpe()[1].to_str())
    assert can_cut(rust)
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    assert not can_cut(rust)
    rust.pre_tokenizer = pre_tokenizers.Split(Regex("[a-z ]+"), behavior="isolated")
    assert not can_cut(rust)


def test_other_threads_run_while_a_long_text_is_encoded() -> None:
    """A machine that stalls once does so in one of the tries; encoding without turns for others, in all."""
    tokenizer = tokenizer_from_gguf(small_bpe()[0])

    def holds_up_others() -> bool:
        thread = Thread(target=tokenizer.encode, args=("1" * 200_000,))
        thread.start()
        longest, last, turns = 0.0, time.perf_counter(), 0
        while thread.is_alive():
            time.sleep(0.001)
            now = time.perf_counter()
            longest, last, turns = max(longest, now - last), now, turns + 1
        return turns >= 10 and longest >= 0.25

    assert not all(holds_up_others() for _ in range(3))
