"""Writers of Whisper files in ggml's and CTranslate2's formats, for tests of their readers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants

from antiphon.models.whisper import _openai_names
from antiphon.weights.formats.ggml import DIMENSIONS
from antiphon.weights.source import TensorNames


def ggml_file(
    dims: Mapping[str, int],
    state: Mapping[str, torch.Tensor],
    tokens: Sequence[bytes],
    matrix_type: GGMLQuantizationType = GGMLQuantizationType.F16,
) -> bytes:
    """As whisper.cpp's converter and quantiser lay it out."""
    out = [b"lmgg", struct.pack("<11i", *(dims[name] for name in DIMENSIONS), 1)]
    out += [struct.pack("<2i", dims["n_mels"], 201), bytes(4 * dims["n_mels"] * 201)]
    out += [struct.pack("<i", len(tokens)), *(struct.pack("<I", len(token)) + token for token in tokens)]
    for name, tensor in state.items():
        array = tensor.float().numpy()
        if name.endswith(("conv1.bias", "conv2.bias")):
            array = array.reshape(-1, 1)
        plain = array.ndim == 1 or "positional" in name or "conv" in name
        kind = GGMLQuantizationType.F32 if plain else matrix_type
        if "conv" in name and name.endswith("weight"):
            kind = GGMLQuantizationType.F16
        data = quants.quantize(np.ascontiguousarray(array), kind)
        encoded = name.encode()
        out.append(struct.pack("<3i", array.ndim, len(encoded), int(kind)))
        out.append(struct.pack(f"<{array.ndim}i", *reversed(array.shape)))
        out += [encoded, data.tobytes()]
    return b"".join(out)


def _string(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data


def ctranslate2_variables(state: Mapping[str, torch.Tensor], layers: int) -> dict[str, torch.Tensor]:
    """OpenAI's tensors under CTranslate2's names, fused as its converter does."""
    by_hf = TensorNames(_openai_names())
    hidden = state["decoder.token_embedding.weight"].shape[1]

    def take(name: str) -> torch.Tensor:
        return state.get(by_hf(name), torch.zeros(hidden))

    variables = {
        "encoder/position_encodings/encodings": take("model.encoder.embed_positions.weight"),
        "decoder/position_encodings/encodings": take("model.decoder.embed_positions.weight"),
        "decoder/embeddings/weight": take("model.decoder.embed_tokens.weight"),
    }
    for number in (1, 2):
        for kind in ("weight", "bias"):
            variables[f"encoder/conv{number}/{kind}"] = take(f"model.encoder.conv{number}.{kind}")
    fused = {
        "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "self_attention/linear_1": ("self_attn.out_proj",),
        "attention/linear_0": ("encoder_attn.q_proj",),
        "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
        "attention/linear_2": ("encoder_attn.out_proj",),
        "ffn/linear_0": ("fc1",),
        "ffn/linear_1": ("fc2",),
    }
    norms = {
        "self_attention/layer_norm": "self_attn_layer_norm",
        "attention/layer_norm": "encoder_attn_layer_norm",
        "ffn/layer_norm": "final_layer_norm",
    }
    for side in ("encoder", "decoder"):
        norm_pairs = [(f"{side}/layer_norm", f"model.{side}.layer_norm")]
        for layer in range(layers):
            for ours, theirs in fused.items():
                if side == "encoder" and ours.startswith("attention"):
                    continue
                for kind in ("weight", "bias"):
                    parts = [take(f"model.{side}.layers.{layer}.{name}.{kind}") for name in theirs]
                    variables[f"{side}/layer_{layer}/{ours}/{kind}"] = torch.cat(parts)
            norm_pairs += [
                (f"{side}/layer_{layer}/{ours}", f"model.{side}.layers.{layer}.{theirs}")
                for ours, theirs in norms.items()
                if side == "decoder" or not ours.startswith("attention")
            ]
        for ours, theirs in norm_pairs:
            variables[f"{ours}/gamma"] = take(f"{theirs}.weight")
            variables[f"{ours}/beta"] = take(f"{theirs}.bias")
    return variables


def ctranslate2_file(
    variables: Mapping[str, torch.Tensor], heads: int, kind: str = "float32", spec: str = "WhisperSpec"
) -> bytes:
    """`kind` is float32, float16 or int8, which quantises matrices by row."""
    entries: list[tuple[str, tuple[int, ...], int, bytes]] = []
    for name, tensor in variables.items():
        if kind == "int8" and tensor.dim() == 2 and "position" not in name:
            scale = 127.0 / tensor.abs().amax(1).clamp(min=1e-9)
            integers = (tensor * scale[:, None]).round().to(torch.int8)
            entries.append((name, tuple(tensor.shape), 1, integers.numpy().tobytes()))
            entries.append((f"{name}_scale", tuple(scale.shape), 0, scale.float().numpy().tobytes()))
        elif kind == "float16":
            entries.append((name, tuple(tensor.shape), 4, tensor.half().numpy().tobytes()))
        else:
            entries.append((name, tuple(tensor.shape), 0, tensor.float().numpy().tobytes()))
    for side in ("encoder", "decoder"):
        entries.append((f"{side}/num_heads", (), 2, struct.pack("<h", heads)))
    out = [struct.pack("<I", 6), _string(spec), struct.pack("<II", 3, len(entries))]
    for name, shape, type_id, data in entries:
        out += [_string(name), struct.pack("<B", len(shape)), struct.pack(f"<{len(shape)}I", *shape)]
        out += [struct.pack("<BI", type_id, len(data)), data]
    out += [struct.pack("<I", 1), _string("decoder/projection/weight"), _string("decoder/embeddings/weight")]
    return b"".join(out)
