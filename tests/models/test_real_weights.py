"""Real checkpoints against outside implementations on the same weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from antiphon import ops
from antiphon.models.base.model import CausalLM
from antiphon.models.bert import Bert
from antiphon.models.registry import build_model
from antiphon.models.whisper import Whisper
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.hf_vocab import tokenizer_from_file
from antiphon.text.tokenization.llama2c_vocab import tokenizer_from_llama2c
from antiphon.weights.formats.open import open_checkpoint
from models.test_bert import flatten
from support.kernels.paged import PagedRunner
from support.models.llama_cpp import llama_cpp_logits
from support.text.enwik8 import enwik8_text

pytestmark = pytest.mark.weights

TOKENS = 512
FEW_TOKENS = 96
LARGE = ("qwen2.5-coder-0.5b", "tinyllama-1.1b")
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


def first_tokens(path: Path, soak: bool) -> list[int]:
    tokenizer = tokenizer_from_gguf(open_checkpoint(path).metadata)
    return tokenizer.encode(enwik8_text())[: TOKENS if soak else FEW_TOKENS]


def transformers_logits(path: Path, tokens: list[int]) -> torch.Tensor:
    """fp32 logits of transformers on weights that its GGUF loader decoded with the `gguf` package."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32
    ).eval()
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0]


def mean_kl(expected: torch.Tensor, logits: torch.Tensor) -> float:
    p, q = expected.double().log_softmax(-1), logits.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean().item()


def top1_agreement(expected: torch.Tensor, logits: torch.Tensor) -> float:
    return (expected.argmax(-1) == logits.argmax(-1)).float().mean().item()


def perplexity(tokens: list[int], logits: torch.Tensor) -> float:
    logprobs = logits[:-1].double().log_softmax(-1)
    return (-logprobs.gather(-1, torch.tensor(tokens[1:])[:, None]).mean()).exp().item()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b", "gemma-3-270m", "tinyllama-1.1b"])
def test_gguf_logits(name: str, model_path: ModelPath, soak: bool) -> None:
    """Exact products give transformers' logits. Most of the time is transformers reading the file."""
    if name in LARGE and not soak:
        pytest.skip("the smaller models stand for it; --soak runs it")
    path = model_path(name)
    tokens = first_tokens(path, soak)
    theirs = transformers_logits(path, tokens)
    ours = our_logits(path, tokens, "reference")
    figures = {
        "KL": mean_kl(theirs, ours),
        "top-1": top1_agreement(theirs, ours),
        "perplexity": perplexity(tokens, ours),
        "transformers": perplexity(tokens, theirs),
    }
    if "native" in ops.available_backends():
        figures["native KL"] = mean_kl(theirs, our_logits(path, tokens, "native", repack=False))
        assert figures["native KL"] <= 1e-5, figures
    print(name, figures)
    assert figures["KL"] <= 1e-5
    assert figures["top-1"] >= 0.995
    assert figures["perplexity"] == pytest.approx(figures["transformers"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.skipif("native" not in ops.available_backends(), reason="the extension was not built")
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b", "gemma-3-270m", "tinyllama-1.1b"])
def test_packed_products_lose_no_more_than_llama_cpp(name: str, model_path: ModelPath, soak: bool) -> None:
    """Both round x to 8 bits; ours may lose a fifth more. On few tokens chance moves a perplexity by a percent."""
    path = model_path(name)
    tokens = first_tokens(path, soak)
    exact = our_logits(path, tokens, "native", repack=False)
    packed = our_logits(path, tokens, "native")
    llama_cpp = torch.from_numpy(llama_cpp_logits(path, tokens, exact.shape[1]))
    figures = {
        "KL": mean_kl(exact, packed),
        "llama.cpp KL": mean_kl(exact, llama_cpp),
        "exact": perplexity(tokens, exact),
        "perplexity": perplexity(tokens, packed),
        "llama.cpp": perplexity(tokens, llama_cpp),
    }
    print(name, figures)
    assert figures["KL"] <= 1.2 * figures["llama.cpp KL"]
    assert figures["perplexity"] == pytest.approx(figures["exact"], rel=0.005 if soak else 0.02)
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


WHISPER_RENAMES = (
    ("blocks", "layers"), ("mlp.0", "fc1"), ("mlp.2", "fc2"), ("mlp_ln", "final_layer_norm"),
    ("cross_attn_ln", "encoder_attn_layer_norm"), ("cross_attn", "encoder_attn"),
    ("attn_ln", "self_attn_layer_norm"), (".attn.", ".self_attn."),
    ("attn.query", "attn.q_proj"), ("attn.key", "attn.k_proj"), ("attn.value", "attn.v_proj"),
    ("attn.out", "attn.out_proj"), ("decoder.ln.", "decoder.layer_norm."),
    ("encoder.ln_post.", "encoder.layer_norm."), ("token_embedding", "embed_tokens"),
    ("positional_embedding", "embed_positions.weight"),
)  # fmt: skip


def whisper_reference(path: Path) -> torch.nn.Module:
    """transformers' Whisper with the checkpoint's weights under transformers' names."""
    checkpoint = torch.load(path, weights_only=True)
    dims = checkpoint["dims"]
    config = transformers.WhisperConfig(
        vocab_size=dims["n_vocab"], num_mel_bins=dims["n_mels"], d_model=dims["n_audio_state"],
        encoder_layers=dims["n_audio_layer"], encoder_attention_heads=dims["n_audio_head"],
        encoder_ffn_dim=4 * dims["n_audio_state"], decoder_layers=dims["n_text_layer"],
        decoder_attention_heads=dims["n_text_head"], decoder_ffn_dim=4 * dims["n_text_state"],
        max_source_positions=dims["n_audio_ctx"], max_target_positions=dims["n_text_ctx"],
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    state = {name: tensor.float() for name, tensor in checkpoint["model_state_dict"].items()}
    for theirs, ours in WHISPER_RENAMES:
        state = {name.replace(theirs, ours): tensor for name, tensor in state.items()}
    model.model.load_state_dict(state, strict=True)
    return model.double().eval()


def test_whisper_equals_transformers(model_path: ModelPath) -> None:
    path = model_path("whisper-tiny.en")
    theirs = whisper_reference(path)
    ours = build_model(open_checkpoint(path))
    assert isinstance(ours, Whisper)
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(2, 80, 3000, generator=generator) * 2 - 1
    starts = torch.tensor([0, 1500, 3000], dtype=torch.int32)
    encoded = ours.encode(features.transpose(1, 2).contiguous(), starts)
    prompts = [[50257, 50362, 383, 3139, 286, 4881], [50257, 50362, 843]]
    with torch.no_grad():
        states = theirs.model.encoder(features.double()).last_hidden_state
    assert (encoded.view(2, 1500, -1) - states).abs().max() <= 1e-3
    runner = PagedRunner(ours, 2, 16, block_tokens=16, cross_tokens=1500)
    runner.store_encoded(encoded)
    logits = runner.step([(row, prompt, 0) for row, prompt in enumerate(prompts)])
    for row, prompt in enumerate(prompts):
        with torch.no_grad():
            sound = features[row : row + 1].double()
            expected = theirs(input_features=sound, decoder_input_ids=torch.tensor([prompt])).logits[0]
        assert (logits[row] - expected).abs().max() <= 1e-3


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


@pytest.mark.parametrize("backend", ops.available_backends())
def test_stories_greedy_equals_plain_numpy(backend: str, model_path: ModelPath) -> None:
    path = model_path("stories-15m")
    plain = PlainLlama(path)
    tokenizer = tokenizer_from_llama2c(path.parent / "tokenizer.bin", plain.vocab)
    prompt = tokenizer.encode("Once upon a time")
    expected = list(prompt)
    for position in range(len(prompt) + 199):
        logits = plain.logits(expected[position], position)
        if position + 1 >= len(prompt):
            expected.append(int(logits.argmax()))
    model = build_model(open_checkpoint(path))
    assert isinstance(model, CausalLM)
    runner = PagedRunner(model, 1, len(expected))
    with ops.use_backend(backend):
        tokens = list(prompt)
        (step,) = runner.step([(0, prompt, 0)])
        while len(tokens) < len(expected):
            tokens.append(int(step[-1].argmax()))
            (step,) = runner.step([(0, tokens[-1:], len(tokens) - 1)])
    assert tokens == expected
    assert len(tokens) == len(prompt) + 200


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b"])
def test_int8_pages_keep_the_perplexity(name: str, model_path: ModelPath) -> None:
    """int8 keys and values take at most 0.54 times the bytes of fp16 and cost next to no accuracy."""
    checkpoint = open_checkpoint(model_path(name))
    tokens = tokenizer_from_gguf(checkpoint.metadata).encode(enwik8_text())[:TOKENS]
    model = build_model(checkpoint)
    assert isinstance(model, CausalLM)
    half, quarter = torch.float16, torch.int8
    figures, sizes = {}, {}
    for types in ((torch.float32, torch.float32), (half, half), (half, quarter), (quarter, quarter)):
        runner = PagedRunner(model, 1, TOKENS, block_tokens=16, dtype=types[0], value_dtype=types[1])
        (logits,) = runner.step([(0, tokens, 0)])
        figures[types] = perplexity(tokens, logits)
        sizes[types] = sum(layout.bytes_per_token for layout in runner.cache.layouts.values())
    print(name, figures, sizes)
    full = figures[torch.float32, torch.float32]
    assert figures[quarter, quarter] == pytest.approx(full, rel=0.005)
    assert figures[half, quarter] == pytest.approx(full, rel=0.002)
    assert figures[half, half] == pytest.approx(full, rel=0.001)
    assert sizes[quarter, quarter] <= 0.54 * sizes[half, half]
