"""Real checkpoints against outside implementations on the same weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon import ops
from antiphon.models.base.model import CausalLM
from antiphon.models.bert import Bert
from antiphon.models.registry import build_model
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.hf_vocab import tokenizer_from_file
from antiphon.text.tokenization.llama2c_vocab import tokenizer_from_llama2c
from antiphon.weights.formats.open import open_checkpoint
from models.test_bert import flatten
from support.kernels.paged import PagedRunner
from support.models.gguf_reference import reference_model
from support.models.llama_cpp import llama_cpp_logits
from support.text.enwik8 import enwik8_text

pytestmark = pytest.mark.weights

#: Tokens that are compared, also at full length.
TOKENS, SOAK_TOKENS = 96, 512
#: Tokens of a greedy answer.
STORY_TOKENS = 64
ModelPath = Callable[[str], Path]


def our_logits(path: Path, tokens: list[int], backend: str, repack: bool = True) -> torch.Tensor:
    """Logits of every token; on the native backend with weights packed as for any user, or as the file has them."""
    model = build_model(open_checkpoint(path))
    assert isinstance(model, CausalLM)
    with ops.use_backend(backend):
        if backend == "native":
            ops.prepare_weights(list(model.weights()), repack)
        (logits,) = PagedRunner(model, 1, len(tokens), block_tokens=16).step([(0, tokens, 0)])
    return logits


def first_tokens(path: Path, count: int) -> list[int]:
    tokenizer = tokenizer_from_gguf(open_checkpoint(path).metadata)
    return tokenizer.encode(enwik8_text()[: 16 * count])[:count]


def transformers_logits(path: Path, tokens: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = reference_model(path)(torch.tensor([tokens])).logits[0]
    return logits


def mean_kl(expected: torch.Tensor, logits: torch.Tensor) -> float:
    """Kullback-Leibler divergence, the mean of all tokens, of log-probabilities."""
    return (expected.exp() * (expected - logits)).sum(-1).mean().item()


def top1_agreement(expected: torch.Tensor, logits: torch.Tensor) -> float:
    return (expected.argmax(-1) == logits.argmax(-1)).float().mean().item()


def perplexity(tokens: list[int], logits: torch.Tensor) -> float:
    logprobs = logits[:-1].double().log_softmax(-1)
    return (-logprobs.gather(-1, torch.tensor(tokens[1:])[:, None]).mean()).exp().item()


def logprobs(logits: torch.Tensor) -> torch.Tensor:
    return logits.double().log_softmax(-1)


LARGE = pytest.mark.long("more than a hundred million weights are decoded by NumPy")
MODELS = [
    pytest.param("smollm2-135m", marks=LARGE),
    pytest.param("qwen2.5-coder-0.5b", marks=LARGE),
    pytest.param("gemma-3-270m", marks=LARGE),
    pytest.param("tinyllama-1.1b", marks=pytest.mark.soak),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_gguf_logits(name: str, model_path: ModelPath, soak: bool) -> None:
    """Exact products give transformers' logits; packed ones lose no more than llama.cpp's.

    Both round activations to 8 bits; ours may lose a fifth more. On few tokens chance moves a perplexity by a percent.
    """
    path = model_path(name)
    tokens = first_tokens(path, SOAK_TOKENS if soak else TOKENS)
    transformers = logprobs(transformers_logits(path, tokens))
    figures = {"transformers": perplexity(tokens, transformers)}
    backends = [backend for backend in ("reference", "native") if backend in ops.available_backends()]
    for backend in backends if soak or name == MODELS[0] else backends[-1:]:
        exact = logprobs(our_logits(path, tokens, backend, repack=False))
        figures |= {"exact": perplexity(tokens, exact), "exact KL": mean_kl(transformers, exact)}
        assert figures["exact KL"] <= 1e-5, (backend, figures)
        assert figures["exact"] == pytest.approx(figures["transformers"], rel=1e-4)
        assert top1_agreement(transformers, exact) >= 0.995
    if "native" not in backends:
        return
    packed = logprobs(our_logits(path, tokens, "native"))
    llama_cpp = logprobs(torch.from_numpy(llama_cpp_logits(path, tokens, exact.shape[1])))
    figures |= {
        "packed KL": mean_kl(exact, packed),
        "llama.cpp KL": mean_kl(exact, llama_cpp),
        "packed": perplexity(tokens, packed),
        "llama.cpp": perplexity(tokens, llama_cpp),
    }
    print(name, figures)
    assert figures["packed KL"] <= 1.2 * figures["llama.cpp KL"]
    assert figures["packed"] == pytest.approx(figures["exact"], rel=0.005 if soak else 0.02)
    assert figures["llama.cpp"] == pytest.approx(figures["exact"], rel=0.015 if soak else 0.03)


def test_minilm_equals_sentence_transformers(model_path: ModelPath) -> None:
    from sentence_transformers import SentenceTransformer

    path = model_path("all-minilm-l6-v2")
    texts = [
        "The quick brown fox jumps over the lazy dog.",
        "",
        "Antiphony is singing by two choirs in alternation.",
        "Привет, как дела? 你好 🙂",
        "word " * 200,
    ]
    tokenizer = tokenizer_from_file(path / "tokenizer.json", path / "tokenizer_config.json")
    model = build_model(open_checkpoint(path))
    assert isinstance(model, Bert)
    ours = model.embed(*flatten([tokenizer.encode(text) for text in texts]))
    reference = SentenceTransformer(str(path), device="cpu")
    reference.max_seq_length = 512
    theirs = torch.from_numpy(np.stack(list(reference.encode(texts, normalize_embeddings=False))))
    distances = 1 - torch.nn.functional.cosine_similarity(ours.double(), theirs.double())
    assert distances.max() <= 1e-5
    assert (ours.norm(dim=-1) - theirs.norm(dim=-1)).abs().max() <= 1e-4


class PlainLlama:
    """stories-15m in float32 numpy, straight from the file's bytes: one token at a time, a list for a cache."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        header = np.frombuffer(raw[:28], dtype=np.int32)
        self.dim, hidden, self.layers, self.heads, _, self.vocab = (int(value) for value in header[:6])
        floats, offset = np.frombuffer(raw, dtype=np.float32, offset=28), 0

        def take(*shape: int) -> np.ndarray:
            nonlocal offset
            size = int(np.prod(shape))
            offset += size
            return floats[offset - size : offset].reshape(shape)

        dim, layers = self.dim, self.layers
        self.embedding = take(self.vocab, dim)
        self.attention_norm = take(layers, dim)
        self.wq, self.wk, self.wv, self.wo = (take(layers, dim, dim) for _ in range(4))
        self.mlp_norm = take(layers, dim)
        self.w1, self.w2, self.w3 = take(layers, hidden, dim), take(layers, dim, hidden), take(layers, hidden, dim)
        self.norm = take(dim)
        self.keys: list[list[np.ndarray]] = [[] for _ in range(layers)]
        self.values: list[list[np.ndarray]] = [[] for _ in range(layers)]

    @staticmethod
    def rms(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean() + np.float32(1e-5)) * w

    def rotate(self, x: np.ndarray, position: int) -> np.ndarray:
        size = self.dim // self.heads
        pairs = x.reshape(self.heads, size // 2, 2)
        angle = position / 10000 ** (np.arange(0, size, 2, dtype=np.float32) / size)
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        first, second = pairs[..., 0], pairs[..., 1]
        return np.stack([first * cos - second * sin, first * sin + second * cos], axis=-1).reshape(self.heads, size)

    def logits(self, token: int, position: int) -> np.ndarray:
        x = self.embedding[token].copy()
        size = self.dim // self.heads
        for layer in range(self.layers):
            y = self.rms(x, self.attention_norm[layer])
            q = self.rotate(self.wq[layer] @ y, position)
            self.keys[layer].append(self.rotate(self.wk[layer] @ y, position))
            self.values[layer].append((self.wv[layer] @ y).reshape(self.heads, size))
            scores = np.einsum("hd,thd->ht", q, np.stack(self.keys[layer])) / np.sqrt(np.float32(size))
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            x = x + self.wo[layer] @ np.einsum("ht,thd->hd", weights, np.stack(self.values[layer])).reshape(-1)
            y = self.rms(x, self.mlp_norm[layer])
            gate = self.w1[layer] @ y
            x = x + self.w2[layer] @ (gate / (1 + np.exp(-gate)) * (self.w3[layer] @ y))
        return self.embedding @ self.rms(x, self.norm)


def test_stories_greedy_equals_plain_numpy(model_path: ModelPath) -> None:
    path = model_path("stories-15m")
    plain = PlainLlama(path)
    prompt = tokenizer_from_llama2c(path.parent / "tokenizer.bin", plain.vocab).encode("Once upon a time")
    expected = list(prompt)
    for position in range(len(prompt) + STORY_TOKENS - 1):
        logits = plain.logits(expected[position], position)
        if position + 1 >= len(prompt):
            expected.append(int(logits.argmax()))
    for backend in ops.available_backends():
        model = build_model(open_checkpoint(path))
        assert isinstance(model, CausalLM)
        runner = PagedRunner(model, 1, len(expected))
        with ops.use_backend(backend):
            tokens = list(prompt)
            (step,) = runner.step([(0, prompt, 0)])
            while len(tokens) < len(expected):
                tokens.append(int(step[-1].argmax()))
                (step,) = runner.step([(0, tokens[-1:], len(tokens) - 1)])
        assert tokens == expected, backend


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", pytest.param("qwen2.5-coder-0.5b", marks=pytest.mark.soak)])
def test_int8_pages_keep_the_perplexity(name: str, model_path: ModelPath, soak: bool) -> None:
    """int8 keys and values take at most 0.54 times the bytes of fp16 and cost next to no accuracy."""
    path = model_path(name)
    tokens = first_tokens(path, SOAK_TOKENS if soak else 256)
    model = build_model(open_checkpoint(path))
    assert isinstance(model, CausalLM)
    half, quarter = torch.float16, torch.int8
    figures, sizes = {}, {}
    for types in ((torch.float32, torch.float32), (half, half), (half, quarter), (quarter, quarter)):
        runner = PagedRunner(model, 1, len(tokens), block_tokens=16, dtype=types[0], value_dtype=types[1])
        (logits,) = runner.step([(0, tokens, 0)])
        figures[types] = perplexity(tokens, logits)
        sizes[types] = sum(layout.bytes_per_token for layout in runner.cache.layouts.values())
    print(name, figures, sizes)
    full = figures[torch.float32, torch.float32]
    assert figures[quarter, quarter] == pytest.approx(full, rel=0.005)
    assert figures[half, quarter] == pytest.approx(full, rel=0.002)
    assert figures[half, half] == pytest.approx(full, rel=0.001)
    assert sizes[quarter, quarter] <= 0.54 * sizes[half, half]
