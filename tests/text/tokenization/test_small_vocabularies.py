"""Each kind of tokenizer on a small vocabulary, against the library that made the vocabulary."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders

from antiphon.errors import AntiphonError, TokenizerError, UnsupportedError
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.hf_vocab import FileTokenizer, tokenizer_from_file
from antiphon.text.tokenization.llama2c_vocab import tokenizer_from_llama2c
from antiphon.text.tokenization.pre_tokenizers import PRE_TOKENIZERS
from antiphon.text.tokenization.sentencepiece import SentencePieceTokenizer
from antiphon.text.tokenization.special_splitter import SpecialSplitter
from support.text.vocabularies import (
    SPECIALS,
    TOOL_CALL,
    random_text,
    small_bpe,
    small_sentencepiece,
    small_wordpiece,
)

TEXTS = [random_text(random.Random(seed)) for seed in range(400)]


def test_byte_level_bpe_equals_the_library() -> None:
    metadata, rust = small_bpe()
    tokenizer = tokenizer_from_gguf(metadata)
    for text in TEXTS:
        assert tokenizer.encode(text) == rust.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_sentencepiece_equals_the_library() -> None:
    metadata, processor = small_sentencepiece()
    tokenizer = tokenizer_from_gguf(metadata)
    for sample in TEXTS:
        # The library's Python side stops at a null character, and after a user-defined token it adds no space.
        text = sample.replace("\0", "").replace(TOOL_CALL, "")
        assert tokenizer.encode(text, add_special_tokens=False, parse_special=False) == processor.encode(text), text


def test_sentencepiece_takes_no_shortcut_through_words() -> None:
    """Merging word by word gives what merging the whole text at once gives."""
    metadata, _ = small_sentencepiece()
    tokenizer = tokenizer_from_gguf(metadata)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    for text in TEXTS:
        if text:
            spelled = tokenizer.respell(text)
            assert tokenizer.encode_run(spelled, after_token=False) == tokenizer._encode_word(spelled)


def test_wordpiece_equals_the_library() -> None:
    metadata, rust = small_wordpiece()
    tokenizer = tokenizer_from_gguf(metadata)
    for text in TEXTS:
        assert tokenizer.encode(text) == [2, *rust.encode(text).ids, 3]
    ids = tokenizer.encode("The quick [MASK] fox")
    assert tokenizer.decode(ids, skip_special_tokens=True) == "the quick fox"


def test_the_file_tokenizer_equals_the_library() -> None:
    _, rust = small_bpe()
    tokenizer = FileTokenizer(RustTokenizer.from_str(rust.to_str()), {"eos_token": "<|im_end|>"})
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert ids == rust.encode(text).ids
        assert tokenizer.decode(ids) == text
    assert tokenizer.special.eos_id == rust.token_to_id("<|im_end|>")
    assert tokenizer.eos_ids == {rust.token_to_id("<|im_end|>"), rust.token_to_id("<|endoftext|>")}


@pytest.mark.parametrize("source", ["gguf", "file"])
def test_special_tokens_are_text_unless_parsed(source: str) -> None:
    metadata, rust = small_bpe()
    if source == "gguf":
        tokenizer = tokenizer_from_gguf(metadata)
    else:
        tokenizer = FileTokenizer(RustTokenizer.from_str(rust.to_str()), {})
    text = f"a<|im_end|>{TOOL_CALL}b"
    parsed = tokenizer.encode(text)
    plain = tokenizer.encode(text, parse_special=False)
    call = tokenizer.id_of(TOOL_CALL)
    assert parsed == [tokenizer.id_of("a"), tokenizer.id_of("<|im_end|>"), call, tokenizer.id_of("b")]
    assert not set(plain) & tokenizer.special_ids and call in plain
    assert tokenizer.decode(plain) == tokenizer.decode(parsed) == text
    assert tokenizer.decode(parsed, skip_special_tokens=True) == f"a{TOOL_CALL}b"


def test_control_tokens_are_no_result_of_merging() -> None:
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "</", "s>", "<", "/", "s", ">", "▁", "▁</"],
        "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -1.0, -2.0, -9.0, -9.0, -9.0, -9.0, -9.0, -3.0],
        "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    tokenizer = tokenizer_from_gguf(metadata)
    assert tokenizer.encode("</s>") == [1, 2]
    assert tokenizer.encode("</s>", parse_special=False) == [1, 10, 4]
    assert tokenizer.encode("xyz</", add_special_tokens=False) == [9, 0, 3]


def test_begin_and_end_tokens_follow_the_file() -> None:
    metadata = dict(small_bpe()[0])
    assert not tokenizer_from_gguf(metadata).add_bos
    start, end = metadata["tokenizer.ggml.bos_token_id"], metadata["tokenizer.ggml.eos_token_id"]
    tokenizer = tokenizer_from_gguf(
        metadata | {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": 1}
    )
    assert tokenizer.add_bos
    ids = tokenizer.encode("fox")
    assert (ids[0], ids[-1]) == (start, end)
    assert tokenizer.encode("fox", add_special_tokens=False) == ids[1:-1]
    llama = tokenizer_from_gguf(small_sentencepiece()[0])
    assert llama.encode("") == [llama.special.bos_id]
    assert llama.eos_ids == {llama.special.eos_id}


def test_ends_are_found_by_their_spelling() -> None:
    metadata = dict(small_bpe()[0])
    tokenizer = tokenizer_from_gguf(metadata)
    assert tokenizer.eos_ids == {tokenizer.id_of("<|im_end|>"), tokenizer.id_of("<|endoftext|>")}
    other = tokenizer_from_gguf(metadata | {"tokenizer.ggml.eot_token_id": 7})
    assert other.eos_ids == tokenizer.eos_ids | {7}


def test_arrays_may_be_numpy() -> None:
    metadata, processor = small_sentencepiece()
    scores = np.array(metadata["tokenizer.ggml.scores"], np.float32)
    types = np.array(metadata["tokenizer.ggml.token_type"], np.int32)
    tokenizer = tokenizer_from_gguf(metadata | {"tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types})
    assert tokenizer.encode("the fox", add_special_tokens=False) == processor.encode("the fox")


@pytest.mark.parametrize(
    ("kind", "change", "error", "words"),
    [
        ("gpt2", {"model": "rwkv"}, UnsupportedError, ["'rwkv'", "gpt2"]),
        ("gpt2", {"model": None}, TokenizerError, ["tokenizer.ggml.model"]),
        ("gpt2", {"pre": "no-such"}, UnsupportedError, ["'no-such'", "llama-bpe", "qwen2"]),
        ("gpt2", {"merges": ["a b", "q zz"]}, TokenizerError, ["merge 0 of 2", "'ab'"]),
        ("gpt2", {"merges": ["alone"]}, TokenizerError, ["merge 0 of 1", "'alone'"]),
        ("gpt2", {"merges": None}, TokenizerError, ["tokenizer.ggml.merges"]),
        ("gpt2", {"merges": "a b"}, TokenizerError, ["str", "array"]),
        ("gpt2", {"tokens": []}, TokenizerError, ["empty"]),
        ("gpt2", {"tokens": ["a", 5]}, TokenizerError, ["tokens[1]", "int"]),
        ("gpt2", {"token_type": [1, 2, 3]}, TokenizerError, ["3 token types"]),
        ("gpt2", {"eos_token_id": 100_000}, TokenizerError, ["eos_token_id is 100000", "vocabulary of"]),
        ("gpt2", {"bos_token_id": "x"}, TokenizerError, ["bos_token_id", "'x'"]),
        ("llama", {"scores": [1.0]}, TokenizerError, ["1 scores"]),
        ("llama", {"scores": ["x"]}, TokenizerError, ["scores"]),
        ("llama", {"scores": None}, TokenizerError, ["tokenizer.ggml.scores"]),
        ("llama", {"token_type": "nan"}, TokenizerError, ["array"]),
        ("bert", {"unknown_token_id": -1}, TokenizerError, ["unknown_token_id is -1"]),
    ],
)
def test_bad_metadata_is_refused_by_name(
    kind: str, change: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    make = {"gpt2": small_bpe, "llama": small_sentencepiece, "bert": small_wordpiece}[kind]
    metadata = dict(make()[0]) | {f"tokenizer.ggml.{key}": value for key, value in change.items()}
    with pytest.raises(error) as caught:
        tokenizer_from_gguf({key: value for key, value in metadata.items() if value is not None})
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.one_of(st.text(max_size=3), st.integers(), st.floats(), st.none()), max_size=5),
)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_metadata_gives_a_tokenizer_or_our_error(data: st.DataObject) -> None:
    metadata = dict(data.draw(st.sampled_from([small_bpe, small_sentencepiece, small_wordpiece]))()[0])
    for key in data.draw(st.lists(st.sampled_from(sorted(metadata)), min_size=1, max_size=3)):
        value = metadata.get(key)
        if isinstance(value, list) and value and data.draw(st.booleans()):
            index = data.draw(st.integers(0, len(value) - 1))
            entry = data.draw(st.one_of(st.text(max_size=3), st.integers(), st.floats(), st.none()))
            metadata[key] = [*value[:index], entry, *value[index + 1 :]]
        else:
            metadata[key] = data.draw(VALUES)
    try:
        tokenizer = tokenizer_from_gguf(metadata)
    except AntiphonError as error:
        assert str(error)
        return
    tokenizer.decode(tokenizer.encode("The fox, 12 é <s> 世"))
    tokenizer.decode(range(tokenizer.vocab_size))


def test_ids_and_text_outside_the_vocabulary_are_refused() -> None:
    tokenizer = tokenizer_from_gguf(small_bpe()[0])
    with pytest.raises(TokenizerError, match="token id 100000 is outside"):
        tokenizer.decode([100_000])
    with pytest.raises(TokenizerError, match=r"U\+D800 at character 1"):
        tokenizer.encode("a\ud800")


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZERS))
def test_every_pre_tokenizer_keeps_the_text(name: str) -> None:
    metadata = dict(small_bpe()[0]) | {"tokenizer.ggml.pre": name, "tokenizer.ggml.add_bos_token": False}
    tokenizer = tokenizer_from_gguf(metadata)
    for text in ("Hello, World's 12345 \n\n  été 世界 x=1;", "  \t\r\n", "a", "", "I'LL go\n"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_longest_of_the_leftmost_spellings_is_split_off() -> None:
    splitter = SpecialSplitter({"<a": 1, "<ab>": 2, "b>c": 3, "\n": 4, "\n\n": 5})
    assert list(splitter.split("x<ab>c\n\n\n<a<ab")) == ["x", 2, "c", 5, 4, 1, 1, "b"]
    assert list(splitter.split("")) == []
    assert list(SpecialSplitter({}).split("<a>")) == ["<a>"]
    assert [part for text in SPECIALS for part in SpecialSplitter({text: 9}).split(text)] == [9, 9, 9]


@pytest.mark.parametrize("older", [False, True])
def test_llama2c_files_are_checked(tmp_path: Path, older: bool) -> None:
    bytes_spelled = [chr(byte).encode() if older else b"<0x%02X>" % byte for byte in range(256)]
    texts = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *bytes_spelled, b" ", b"a", b" a", b"aa"]
    records = b"".join(struct.pack("<fi", -float(index), len(text)) + text for index, text in enumerate(texts))
    path = tmp_path / "tokenizer.bin"
    path.write_bytes(struct.pack("<i", 8) + records)
    tokenizer = tokenizer_from_llama2c(path, len(texts))
    assert tokenizer.encode("a") == [1, 261]
    assert tokenizer.encode("aaé</s>") == [1, 261, 260, 3 + 0xC3, 3 + 0xA9, 2]
    assert tokenizer.decode([1, 261, 260], skip_special_tokens=True) == "aa"
    with pytest.raises(TokenizerError, match=f"token {len(texts)} of {len(texts) + 1}"):
        tokenizer_from_llama2c(path, len(texts) + 1)
    path.write_bytes(struct.pack("<ifi", 8, 0.0, 1 << 30))
    with pytest.raises(TokenizerError, match=r"token 0 .* has 1073741824 bytes"):
        tokenizer_from_llama2c(path, 32_000)


def test_a_bad_tokenizer_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        tokenizer_from_file(path)
    rust = RustTokenizer.from_str(small_bpe()[1].to_str())
    rust.decoder = decoders.CTC()
    with pytest.raises(UnsupportedError, match="CTC"):
        FileTokenizer(rust, {})
