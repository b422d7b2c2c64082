"""Random LoRA adapters in the file formats of PEFT and llama.cpp, and the weights merged with them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
from safetensors.torch import save_file
from torch import Tensor

from support.models import tiny_model

#: Pairs (down [rank, inputs], up [outputs, rank]) by layer name.
Pairs = dict[str, tuple[Tensor, Tensor]]


def linear_layers(state: Mapping[str, Tensor]) -> list[str]:
    """Return the names of a Llama's linear layers, without embedding and head."""
    return [name.removesuffix(".weight") for name in state if name.endswith("_proj.weight")]


def random_pairs(
    state: Mapping[str, Tensor], rank: int, seed: int, layers: list[str] | None = None, size: float = 0.15
) -> Pairs:
    generator = torch.Generator().manual_seed(seed)
    pairs = {}
    for name in linear_layers(state) if layers is None else layers:
        outputs, inputs = state[f"{name}.weight"].shape
        down = size * torch.randn(rank, inputs, generator=generator)
        pairs[name] = (down, size * torch.randn(outputs, rank, generator=generator))
    return pairs


def merged(state: Mapping[str, Tensor], pairs: Pairs, alpha: float, rslora: bool = False) -> dict[str, Tensor]:
    """Return the weights with the adapter's scaled products added."""
    merged_state = dict(state)
    for name, (down, up) in pairs.items():
        rank = len(down)
        scale = alpha / (math.sqrt(rank) if rslora else rank)
        delta = scale * (up.double() @ down.double())
        merged_state[f"{name}.weight"] = (state[f"{name}.weight"].double() + delta).float()
    return merged_state


def write_peft(folder: Path, pairs: Pairs, alpha: float, dtype: torch.dtype = torch.float32, **settings: Any) -> Path:
    """Write an adapter as `PeftModel.save_pretrained` does."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, (down, up) in pairs.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = down.to(dtype).contiguous()
        tensors[f"base_model.model.{name}.lora_B.weight"] = up.to(dtype).contiguous()
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "somewhere/else",
        "r": len(next(iter(pairs.values()))[0]),
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": None,
        "target_modules": sorted({name.rpartition(".")[2] for name in pairs}),
        "rank_pattern": {},
        "alpha_pattern": {},
        "init_lora_weights": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config | settings))
    return folder


def write_gguf_adapter(
    path: Path,
    pairs: Pairs,
    alpha: float,
    heads: tuple[int, int] = (tiny_model.HEADS, tiny_model.KV_HEADS),
    architecture: str = "llama",
    kind: str = "lora",
) -> Path:
    """Write an adapter as llama.cpp's `convert_lora_to_gguf.py` does; Llama's query and key rows are interleaved."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, kind)
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    for name, (down, up) in pairs.items():
        index, module = name.removeprefix("model.layers.").split(".", 1)
        own = f"blk.{index}.{tiny_model.GGUF_NAMES[module]}.weight"
        count = {"self_attn.q_proj": heads[0], "self_attn.k_proj": heads[1]}.get(module)
        rows = up if count is None or architecture != "llama" else tiny_model.interleaved(up, count)
        writer.add_tensor(f"{own}.lora_a", down.numpy())
        writer.add_tensor(f"{own}.lora_b", rows.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
