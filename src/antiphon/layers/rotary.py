"""Rotary position embedding: frequencies, their scalings, and the table that `ops.rotary` reads. arXiv:2104.09864."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops import RotaryTable
from antiphon.weights.config_values import number, section


@dataclass(frozen=True)
class Llama3Scaling:
    """Parameters of Llama 3's scaling of low frequencies."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_positions: int


@dataclass(frozen=True)
class RotaryConfig:
    head_dim: int
    theta: float = 10000.0
    linear_factor: float = 1.0
    llama3: Llama3Scaling | None = None


def frequencies(config: RotaryConfig, divisors: Tensor | None = None) -> Tensor:
    """Return the angle per position of each channel pair, fp32 [head_dim / 2]; `divisors` are a file's own factors."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    inverse = 1.0 / (config.theta**exponent) / config.linear_factor
    if divisors is not None:
        return inverse / divisors
    if config.llama3 is None:
        return inverse
    scaling = config.llama3
    wavelength = 2 * math.pi / inverse
    low = scaling.original_positions / scaling.low_frequency_factor
    high = scaling.original_positions / scaling.high_frequency_factor
    smooth = (scaling.original_positions / wavelength - scaling.low_frequency_factor) / (
        scaling.high_frequency_factor - scaling.low_frequency_factor
    )
    blended = (1 - smooth) * inverse / scaling.factor + smooth * inverse
    stretched = torch.where(wavelength > low, inverse / scaling.factor, inverse)
    return torch.where((wavelength <= low) & (wavelength >= high), blended, stretched)


def rotary_table(inverse: Tensor, positions: int) -> RotaryTable:
    """Return cosines and sines of positions 0 to `positions` - 1."""
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * inverse[None, :]
    return RotaryTable(torch.cat([angles.cos(), angles.sin()], dim=-1))


def rotary_from_hf(config: Mapping[str, Any], head_dim: int) -> RotaryConfig:
    """Translate `rope_theta` with `rope_scaling`, or the newer `rope_parameters`, of a Hugging Face config."""
    parameters = section(config, "rope_parameters", "rope_scaling")
    theta = number(parameters, "rope_theta", number(config, "rope_theta", 10000.0))
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    if kind == "default":
        return RotaryConfig(head_dim, theta)
    if kind == "linear":
        return RotaryConfig(head_dim, theta, linear_factor=number(parameters, "factor"))
    if kind == "llama3":
        scaling = Llama3Scaling(
            number(parameters, "factor"),
            number(parameters, "low_freq_factor"),
            number(parameters, "high_freq_factor"),
            int(number(parameters, "original_max_position_embeddings")),
        )
        return RotaryConfig(head_dim, theta, llama3=scaling)
    raise UnsupportedError(f"rotary scaling {kind!r} is not supported; known: default, linear, llama3")


def rotary_from_gguf(metadata: Mapping[str, Any], architecture: str, head_dim: int) -> RotaryConfig:
    """Translate the `rope.*` keys of a GGUF; Llama 3's factors are in a tensor instead (`rope_freqs.weight`)."""
    kind = metadata.get(f"{architecture}.rope.scaling.type", "none")
    factor = number(metadata, f"{architecture}.rope.scaling.factor", 1.0)
    if kind not in ("none", "linear"):
        raise UnsupportedError(f"rotary scaling {kind!r} is not supported in GGUF files; known: none, linear")
    theta = number(metadata, f"{architecture}.rope.freq_base", 10000.0)
    return RotaryConfig(head_dim, theta, linear_factor=factor if kind == "linear" and factor else 1.0)
