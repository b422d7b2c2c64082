"""Kokoro's sizes, from its `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from antiphon.errors import CheckpointError
from antiphon.models.base.metadata import require
from antiphon.models.base.synthesizer import check_symbols

SAMPLE_RATE = 24_000


@dataclass(frozen=True)
class KokoroConfig:
    num_symbols: int
    hidden_size: int
    style_size: int  # of each of a voice's two styles
    num_layers: int
    text_kernel: int
    max_duration: int
    bert_size: int
    bert_heads: int
    bert_intermediate: int
    bert_layers: int
    max_positions: int
    upsample_rates: tuple[int, ...]
    upsample_kernels: tuple[int, ...]
    upsample_channels: int
    block_kernels: tuple[int, ...]
    block_dilations: tuple[tuple[int, ...], ...]
    transform_size: int
    transform_hop: int
    symbols: Mapping[str, int]

    @property
    def hop(self) -> int:
        """Samples per value of the pitch curve."""
        return self.transform_hop * prod(self.upsample_rates)


def config_from_json(config: Mapping[str, Any]) -> KokoroConfig:
    bert, vocoder = _table(config, "plbert"), _table(config, "istftnet")
    num_symbols = require(config, "n_token")
    symbols = check_symbols(config.get("vocab"), num_symbols)
    return KokoroConfig(
        num_symbols=num_symbols,
        hidden_size=require(config, "hidden_dim"),
        style_size=require(config, "style_dim"),
        num_layers=require(config, "n_layer"),
        text_kernel=require(config, "text_encoder_kernel_size"),
        max_duration=require(config, "max_dur"),
        bert_size=require(bert, "hidden_size"),
        bert_heads=require(bert, "num_attention_heads"),
        bert_intermediate=require(bert, "intermediate_size"),
        bert_layers=require(bert, "num_hidden_layers"),
        max_positions=require(bert, "max_position_embeddings"),
        upsample_rates=_sizes(vocoder, "upsample_rates"),
        upsample_kernels=_sizes(vocoder, "upsample_kernel_sizes"),
        upsample_channels=require(vocoder, "upsample_initial_channel"),
        block_kernels=_sizes(vocoder, "resblock_kernel_sizes"),
        block_dilations=_dilations(vocoder),
        transform_size=require(vocoder, "gen_istft_n_fft"),
        transform_hop=require(vocoder, "gen_istft_hop_size"),
        symbols=symbols,
    )


def _table(config: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = config.get(key)
    if not isinstance(value, dict):
        raise CheckpointError(f"config.json of kokoro has no table {key!r}")
    return value


def _sizes(config: Mapping[str, Any], key: str) -> tuple[int, ...]:
    return _checked_sizes(config.get(key), key)


def _dilations(config: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    key = "resblock_dilation_sizes"
    value = config.get(key)
    if not isinstance(value, list):
        raise CheckpointError(f"config key {key!r} is {value!r}, not a list of lists of sizes")
    return tuple(_checked_sizes(entry, key) for entry in value)


def _checked_sizes(value: Any, key: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not value or not all(type(size) is int and 0 < size < 4096 for size in value):
        raise CheckpointError(f"config key {key!r} is {value!r}, not a list of sizes")
    return tuple(value)
