"""Bytes and operations of an analysis, against the files, against PyTorch's own count, and against loaded weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from antiphon.errors import UnsupportedError
from antiphon.models.registry import build_model
from antiphon.ops import available_backends
from antiphon.runtime.analysis.analysis import Analysis, Sizes, analyze_checkpoint
from antiphon.runtime.analysis.floors import Phase
from antiphon.runtime.analysis.sections import Section
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.machine_limits import GivenLimits
from antiphon.runtime.loading.weight_forms import LoadReport, prepare
from antiphon.weights.formats.open import open_checkpoint
from support.models.random_detector import detector_checkpoint

GIVEN = GivenLimits(1e9, 1e9)
CONTEXT, PROMPT, STATES = 20, 12, 24
HIDDEN, INTERMEDIATE, VOCABULARY, HEADS, KV_HEADS = 64, 96, 160, 4, 2
SIZES: dict[str, Any] = dict(
    vocab_size=VOCABULARY,
    hidden_size=HIDDEN,
    intermediate_size=INTERMEDIATE,
    num_hidden_layers=2,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    max_position_embeddings=128,
    tie_word_embeddings=False,
)
CONFIGS: dict[str, Callable[[], transformers.PretrainedConfig]] = {
    "llama": partial(transformers.LlamaConfig, **SIZES),
    "tied llama": partial(transformers.LlamaConfig, **SIZES | {"tie_word_embeddings": True}),
    "qwen2": partial(transformers.Qwen2Config, **SIZES),
    "qwen3": partial(transformers.Qwen3Config, **SIZES, head_dim=16),
    "gemma3": partial(
        transformers.Gemma3TextConfig, **SIZES | {"num_hidden_layers": 6}, head_dim=16, sliding_window=8,
        query_pre_attn_scalar=16,
    ),
    "gpt2": partial(
        transformers.GPT2Config, vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=2, n_head=HEADS, n_positions=128
    ),
}  # fmt: skip
#: The sections that are products of matrices or attention: what the counter counts.
COUNTED = set(Section) - {Section.NORMS, Section.SAMPLING}
native = pytest.mark.skipif("native" not in available_backends(), reason="needs the native backend")


def save(config: transformers.PretrainedConfig, folder: Path) -> transformers.PreTrainedModel:
    """A model of random weights, written to the folder. Attention is eager, so that it is products of matrices."""
    torch.manual_seed(0)
    kinds = {"bert": transformers.AutoModel, "whisper": transformers.AutoModelForSpeechSeq2Seq}
    kind = kinds.get(config.model_type, transformers.AutoModelForCausalLM)
    model = kind.from_config(config, attn_implementation="eager").eval()
    model.save_pretrained(folder)
    return model


def analysis_of(folder: Path, batch: int = 1, **options: Any) -> Analysis:
    config = EngineConfig(**{"device": "cpu", "repack": False, "quantize": "none"} | options)
    return analyze_checkpoint("tiny", open_checkpoint(folder), Sizes(batch, PROMPT, CONTEXT), config, GIVEN)


def counted_flops(run: Callable[[], Any]) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def macs(analysis: Analysis, phase: str, sections: set[Section] = COUNTED) -> float:
    floors = analysis.phases[phase].floors(analysis.limits)
    return sum(floor.macs for section, floor in floors.items() if section in sections)


def constant_bytes(phase: Phase, analysis: Analysis) -> float:
    """What a step reads however many requests it has: weights."""
    one, two = (phase.of_batch(rows).floor(analysis.limits).bytes for rows in (1, 2))
    return 2 * one - two


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("batch", [1, 3])
def test_operations_of_decoders_are_what_pytorch_counts(name: str, batch: int, tmp_path: Path) -> None:
    config = CONFIGS[name]()
    model = save(config, tmp_path)
    analysis = analysis_of(tmp_path, batch)
    tokens = torch.zeros(batch, CONTEXT, dtype=torch.long)
    with torch.no_grad():
        cache = transformers.DynamicCache(config=config)  # a layer with a window keeps no more than it needs
        model(tokens, use_cache=True, past_key_values=cache)
    decode = counted_flops(lambda: model(tokens[:, :1], past_key_values=cache, use_cache=True))
    assert 2 * macs(analysis, "decode") == decode
    prompt = torch.zeros(batch, PROMPT, dtype=torch.long)
    prefill = counted_flops(lambda: model(prompt, use_cache=False, logits_to_keep=1))
    # Eager attention multiplies all pairs of a prompt and masks half of them.
    products = macs(analysis, "prefill", COUNTED - {Section.CACHE})
    pair = 2 * config.num_attention_heads * (HIDDEN // HEADS) * config.num_hidden_layers
    assert 2 * (products + batch * PROMPT * PROMPT * pair) == prefill


@pytest.mark.parametrize("name", CONFIGS)
def test_a_step_reads_every_weight_of_the_file_once(name: str, tmp_path: Path) -> None:
    """But for the embeddings, of which it reads the rows of its tokens, where the head is not the same matrix."""
    model = save(CONFIGS[name](), tmp_path)
    analysis = analysis_of(tmp_path)
    stored = {key: tensor.nbytes for key, tensor in open_checkpoint(tmp_path).tensors().items()}
    assert analysis.file_bytes == sum(stored.values())
    assert analysis.parameters == sum(parameter.numel() for parameter in model.parameters())
    looked_up = [key for key in stored if "embed_tokens" in key or "wte" in key or "wpe" in key]
    if model.config.tie_word_embeddings:
        looked_up = [key for key in looked_up if "wpe" in key]
    read = sum(stored.values()) - sum(stored[key] for key in looked_up)
    assert constant_bytes(analysis.phases["decode"], analysis) == pytest.approx(read)


def test_two_operations_for_each_parameter_of_a_product(tmp_path: Path) -> None:
    model = save(CONFIGS["llama"](), tmp_path)
    analysis = analysis_of(tmp_path, batch=2)
    matrices = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and "embed" not in name
    )
    products = {Section.PROJECTIONS, Section.MLP, Section.HEAD}
    assert macs(analysis, "decode", products) == 2 * matrices
    floors = analysis.phases["decode"].floors(analysis.limits)
    attention = sum(p.numel() for name, p in model.named_parameters() if "self_attn" in name)
    mlp = sum(p.numel() for name, p in model.named_parameters() if ".mlp." in name)
    assert floors[Section.PROJECTIONS].bytes == 4 * attention and floors[Section.MLP].bytes == 4 * mlp
    assert floors[Section.HEAD].bytes == 4 * VOCABULARY * HIDDEN
    norms = sum(p.numel() for name, p in model.named_parameters() if "norm" in name)
    assert floors[Section.NORMS].bytes == 4 * norms and floors[Section.NORMS].macs == 2 * 2 * norms
    assert floors[Section.EMBEDDINGS].bytes == 2 * 4 * HIDDEN
    assert floors[Section.SAMPLING].macs == 2 * VOCABULARY
    per_token = 2 * 2 * KV_HEADS * (HIDDEN // HEADS) * 2  # layers, keys and values, fp16
    assert floors[Section.CACHE].bytes == 2 * per_token * (CONTEXT + 1 + 1)  # seen, and written


def test_operations_of_an_embedding_are_what_pytorch_counts(tmp_path: Path) -> None:
    sizes = {key: value for key, value in SIZES.items() if key not in ("num_key_value_heads", "tie_word_embeddings")}
    model = save(transformers.BertConfig(**sizes), tmp_path)
    analysis = analysis_of(tmp_path, batch=3)
    assert list(analysis.phases) == ["embed"] and not analysis.pages
    tokens = torch.zeros(3, PROMPT, dtype=torch.long)
    flops = counted_flops(lambda: model(tokens).last_hidden_state)
    pooler = 3 * 2 * HIDDEN * HIDDEN  # of the class token, which embeddings do not use
    assert 2 * macs(analysis, "embed") == flops - pooler


def test_operations_of_whisper_are_what_pytorch_counts(tmp_path: Path) -> None:
    config = transformers.WhisperConfig(
        vocab_size=51865, num_mel_bins=80, d_model=HIDDEN, encoder_layers=2, encoder_attention_heads=HEADS,
        decoder_layers=2, decoder_attention_heads=HEADS, encoder_ffn_dim=INTERMEDIATE, decoder_ffn_dim=INTERMEDIATE,
        max_source_positions=STATES, max_target_positions=64,
    )  # fmt: skip
    model = save(config, tmp_path)
    analysis = analysis_of(tmp_path, batch=2)
    assert list(analysis.phases) == ["encode", "prefill", "decode"]
    features = torch.zeros(2, 80, 2 * STATES)
    encoder = model.get_encoder()
    # Cross keys and values are computed when a request starts: two matrices a layer, for every state.
    cross = 2 * 2 * STATES * 2 * HIDDEN * HIDDEN
    assert 2 * (macs(analysis, "encode") - cross) == counted_flops(lambda: encoder(features))
    with torch.no_grad():
        states = encoder(features)
        past = torch.zeros(2, CONTEXT, dtype=torch.long)
        cache = model(encoder_outputs=states, decoder_input_ids=past, use_cache=True).past_key_values
    step = counted_flops(
        lambda: model(encoder_outputs=states, decoder_input_ids=past[:, :1], past_key_values=cache, use_cache=True)
    )
    assert 2 * macs(analysis, "decode") == step
    pages = next(pages for pages in analysis.pages if pages.type == "fp16")
    blocks = -(-CONTEXT // 16) + -(-STATES // 16)
    assert pages.bytes_per_request == blocks * 16 * 2 * 2 * HIDDEN * 2
    assert pages.bytes_per_token == 2 * 2 * HIDDEN * 2


@native
@pytest.mark.parametrize("quantize", [None, "int8", "q4"])
@pytest.mark.parametrize("repack", [True, False])
def test_planned_weights_have_the_bytes_of_loaded_ones(quantize: str | None, repack: bool, tmp_path: Path) -> None:
    save(CONFIGS["llama"](), tmp_path)
    analysis = analysis_of(tmp_path, repack=repack, quantize=quantize)
    model = build_model(open_checkpoint(tmp_path))
    prepare(model, LoadReport(), EngineConfig(repack=repack, quantize=quantize).weight_options())
    assert analysis.weight_bytes == model.weight_bytes()


def test_a_model_without_recorded_programs_is_rejected() -> None:
    config = EngineConfig(device="cpu")
    with pytest.raises(UnsupportedError, match="tiny is a voice activity detector, which has no recorded programs"):
        analyze_checkpoint("tiny", detector_checkpoint(), Sizes(), config, GIVEN)
