"""Write the good seeds of every parser: `PYTHONPATH=tests python tests/fuzz/make_seeds.py`.

Seeds of inputs that once did harm are added beside them by hand, named after what they did.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from onnx import TensorProto, helper, numpy_helper

from antiphon.audio import wav
from antiphon.audio.samples import RawFormat
from support.fuzzing import SEEDS
from support.models.tiny_whisper import dims, state_dict
from weights.whisper_files import ctranslate2_file, ggml_file

RANDOM = np.random.default_rng(0)


def write(target: str, name: str, content: bytes) -> None:
    path = SEEDS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def gguf() -> None:
    """A llama of two tensors with a vocabulary of forty tokens, and metadata of every kind."""
    path = SEEDS / "gguf" / "vocabulary.gguf"
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_float32("sample.float32", 0.1)
    writer.add_int64("sample.int64", -(2**62))
    writer.add_array("sample.bools", [True, False])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([chr(33 + index) for index in range(39)] + ["!!"])
    writer.add_token_merges(["! !"])
    writer.add_token_types([1] * 40)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for message in messages %}{{ message.content }}{% endfor %}")
    writer.add_tensor("norm.weight", RANDOM.standard_normal(7, dtype=np.float32))
    encoded = RANDOM.integers(0, 0x7B, (2, 34), dtype=np.uint8)
    writer.add_tensor("blk.0.attn_q.weight", encoded, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def safetensors() -> None:
    from safetensors.torch import save

    tensors = {"norm.weight": torch.ones(7), "proj.weight": torch.zeros(3, 5, dtype=torch.bfloat16)}
    write("safetensors", "two.safetensors", save(tensors, metadata={"format": "pt"}))
    write("safetensors", "none.safetensors", save({}))


def onnx_graph() -> None:
    """The shape of a letter-to-sound export: one product with its bias, one quantised."""
    weight = numpy_helper.from_array(RANDOM.standard_normal((4, 3)).astype(np.float32), "onnx::MatMul_1")
    bias = numpy_helper.from_array(np.zeros(3, np.float32), "encoder.proj.bias")
    table = numpy_helper.from_array(RANDOM.standard_normal((5, 4)).astype(np.float32), "embedding.weight")
    nodes = [
        helper.make_node("Gather", ["embedding.weight", "chars"], ["x"], name="/embedding/Gather"),
        helper.make_node("MatMul", ["x", "onnx::MatMul_1"], ["y"], name="/encoder/proj/MatMul"),
        helper.make_node("Add", ["y", "encoder.proj.bias"], ["z"], name="/encoder/proj/Add"),
        helper.make_node("ArgMax", ["z"], ["ids"], name="/ArgMax", axis=-1),
    ]
    inputs = [helper.make_tensor_value_info("chars", TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weight, bias, table])
    model = helper.make_model(graph)
    write("onnx", "letters.onnx", model.SerializeToString())


def whisper() -> None:
    """A few tensors each: the readers do not ask for a whole model."""
    state = {name: tensor[:3] for name, tensor in list(state_dict(16).items())[-6:]}
    sizes = dims() | {"n_vocab": 16}
    write("ggml", "few.bin", ggml_file(sizes, state, [b"a", b"bc"], GGMLQuantizationType.F32))
    variables = {
        "encoder/conv1/weight": torch.zeros(4, 2, 3),
        "encoder/position_encodings/encodings": torch.zeros(4, 4),
        "decoder/position_encodings/encodings": torch.zeros(4, 4),
        "decoder/embeddings/weight": torch.ones(6, 4),
    }
    for side in ("encoder", "decoder"):
        variables[f"{side}/layer_0/ffn/linear_0/weight"] = torch.zeros(8, 4)
    for kind in ("float32", "int8"):
        write("ctranslate2", f"{kind}.bin", ctranslate2_file(variables, 2, kind))


def llama2c() -> None:
    header = struct.pack("<7i", 8, 16, 1, 2, 2, 8, 4)
    floats = 8 * 8 + 8 + 8 * 8 * 4 + 8 + 3 * 8 * 16 + 8 + 4 * 4
    write("llama2c", "one_layer.bin", header + bytes(4 * floats))


def sound() -> None:
    samples = (np.sin(np.arange(400) / 8) * 8000).astype("<i2").tobytes()
    write("sound", "pcm16.wav", wav.header(RawFormat("s16le", 8000), 400) + samples)
    write("sound", "unknown_length.wav", wav.header(RawFormat("s16le", 8000, 2), None) + samples)


def form() -> None:
    lines = [
        "--b", 'Content-Disposition: form-data; name="model"', "", "whisper-1",
        "--b", 'Content-Disposition: form-data; name="timestamp_granularities[]"', "", "word",
        "--b", 'Content-Disposition: form-data; name="file"; filename="a.wav"', "Content-Type: audio/wav", "", "RIFF",
        "--b--", "",
    ]  # fmt: skip
    write("multipart", "transcription", "\r\n".join(lines).encode())


def texts() -> None:
    templates = {
        "chatml": "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] | trim }}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "tools": "{%- if tools %}{{ tools | tojson(indent=2) }}{% endif %}{% set ns = namespace(last=0) %}"
        "{% for m in messages[::-1] %}{% if loop.first and m.role == 'user' %}{% set ns.last = loop.index0 %}"
        "{% endif %}{% endfor %}{% macro show(x, n=2) %}{{ x * n }}{% endmacro %}{{ show('a') }}"
        "{{ raise_exception('roles') if ns.last > 3 }}{{ messages | map(attribute='role') | join(',') | upper }}",
    }
    for name, source in templates.items():
        write("template", f"{name}.jinja", source.encode())
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"type": "array", "items": {"type": "string"}, "maxItems": 3}},
        "required": ["a"],
        "$defs": {"n": {"anyOf": [{"type": "integer", "minimum": 3}, {"enum": ["x", None]}]}},
        "additionalProperties": False,
    }
    write("json_schema", "object.json", json.dumps(schema).encode())
    write("json_schema", "pattern.json", json.dumps({"type": "string", "pattern": "^[a-z]{2,5}$"}).encode())
    write("regex", "date.txt", rb"\d{4}-(0[1-9]|1[0-2])-[0-3]\d( [a-z]+)*")
    write("lark", "sum.lark", b'start: term (("+" | "-") term)*\nterm: NUMBER | "(" start ")"\nNUMBER: /[0-9]{1,5}/\n')


if __name__ == "__main__":
    for make in (gguf, safetensors, onnx_graph, whisper, llama2c, sound, form, texts):
        make()
    total = sum(path.stat().st_size for path in Path(SEEDS).rglob("*") if path.is_file())
    print(f"{total} bytes of seeds")
