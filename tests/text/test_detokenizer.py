"""Streaming text: joined pushes equal the whole decoding, for every kind of vocabulary and any ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders

from antiphon.text.detokenizer import IncrementalDetokenizer
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.hf_vocab import FileTokenizer
from antiphon.text.tokenization.tokenizer import Tokenizer
from support.text.vocabularies import small_bpe, small_sentencepiece, small_wordpiece


def file_tokenizer() -> Tokenizer:
    return FileTokenizer(RustTokenizer.from_str(small_bpe()[1].to_str()), {})


def file_wordpiece() -> Tokenizer:
    rust = RustTokenizer.from_str(small_wordpiece()[1].to_str())
    rust.decoder = decoders.WordPiece(cleanup=False)
    return FileTokenizer(rust, {})


KINDS = {
    "gpt2": tokenizer_from_gguf(small_bpe()[0]),
    "llama": tokenizer_from_gguf(small_sentencepiece()[0]),
    "gemma": tokenizer_from_gguf(small_sentencepiece()[0] | {"tokenizer.ggml.add_space_prefix": False}),
    "bert": tokenizer_from_gguf(small_wordpiece()[0]),
    "file": file_tokenizer(),
    "file-bert": file_wordpiece(),
}


def stream(tokenizer: Tokenizer, ids: list[int], skip: bool, prompt: list[int] | None = None) -> list[str]:
    detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=skip, prompt_ids=prompt or ())
    return [*map(detokenizer.push, ids), detokenizer.flush()]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(data=st.data(), skip=st.booleans())
def test_any_ids_stream_to_the_whole_decoding(kind: str, data: st.DataObject, skip: bool) -> None:
    tokenizer = KINDS[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    whole = tokenizer.decode(ids, skip_special_tokens=skip)
    pieces = stream(tokenizer, ids, skip)
    assert "".join(pieces) == whole
    # What has been shown is a beginning of what the tokens so far decode to: nothing is taken back.
    for count in range(len(ids)):
        shown = "".join(pieces[: count + 1])
        assert tokenizer.decode(ids[: count + 1], skip_special_tokens=skip).startswith(shown)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_text_survives_and_no_character_is_cut(kind: str, text: str) -> None:
    tokenizer = KINDS[kind]
    ids = tokenizer.encode(text, add_special_tokens=False, parse_special=False)
    pieces = stream(tokenizer, ids, skip=False)
    if "bert" not in kind:
        expected = text.replace("\u2581", " ") if kind in ("llama", "gemma") else text
        assert "".join(pieces) == expected
        assert all("\ufffd" not in piece or "\ufffd" in text for piece in pieces)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_stream_continues_its_prompt(kind: str, data: st.DataObject) -> None:
    tokenizer = KINDS[kind]
    # A prompt that ends inside a character has no text of its own to continue.
    whole_ids = [index for index in range(tokenizer.vocab_size) if "\ufffd" not in tokenizer.decode([index])]
    prompt = data.draw(st.lists(st.sampled_from(whole_ids), max_size=5))
    ids = data.draw(st.lists(st.sampled_from(whole_ids), max_size=5))
    text = tokenizer.decode(prompt) + "".join(stream(tokenizer, ids, False, prompt))
    assert text == tokenizer.decode(prompt + ids)


def test_characters_wait_for_their_last_byte() -> None:
    tokenizer = KINDS["gpt2"]
    ids = [tokenizer.encode(letter)[0] for letter in ("a",)]
    bytes_of_emoji = [
        index for byte in "🎈".encode() for index in range(300) if tokenizer.token_bytes(index) == bytes([byte])
    ]
    assert stream(tokenizer, [*ids, *bytes_of_emoji], True) == ["a", "", "", "", "🎈", ""]
    assert stream(tokenizer, [*ids, *bytes_of_emoji[:3]], True) == ["a", "", "", "", "\ufffd"]
    assert stream(tokenizer, [bytes_of_emoji[0], *ids], True) == ["", "\ufffda", ""]


def test_the_first_space_is_the_tokenizers_own() -> None:
    tokenizer = KINDS["llama"]
    ids = tokenizer.encode("the fox")
    assert stream(tokenizer, ids, True)[:-1][-1].endswith("fox"[-1])
    assert "".join(stream(tokenizer, ids, True)) == "the fox"
    assert "".join(stream(tokenizer, ids[1:], True, prompt=ids)) == " the fox"
    assert "".join(stream(tokenizer, ids[1:], True, prompt=ids[:1])) == "the fox"
