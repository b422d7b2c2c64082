"""ONNX files as checkpoints: initializers under the names of the modules they belong to.

Exporters fold and transpose weights and name the results `onnx::MatMul_6547` and the like. The graph tells the module
of a weight: by the bias beside it, or by the path of the node that reads it.

Hand-written, like its graph, to validate untrusted files and to read tensors only when needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.formats.onnx_graph import (
    BFLOAT16,
    DTYPES,
    FLOAT,
    FLOAT16,
    INT8,
    UINT8,
    Graph,
    Initializer,
    Node,
    read_graph,
)
from antiphon.weights.formats.protobuf import ProtobufError, ProtobufMessage
from antiphon.weights.json_object import read_json_object
from antiphon.weights.mapped import MappedFile
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

CONFIG_NAME = "config.json"
VOCABULARY_NAME = "vocab.json"

#: Architectures by the inputs and outputs of their exported graphs.
SIGNATURES = {
    (frozenset({"input_ids", "style", "speed"}), frozenset({"waveform"})): "kokoro",
    (frozenset({"ids", "speed"}), frozenset({"lh", "theta", "ln", "lr", "phi", "f0"})): "hibari",
    (frozenset({"chars"}), frozenset({"ids"})): "letter-to-sound",
    (frozenset({"input_features"}), frozenset({"logits"})): "smart-turn",
}

STORED_TYPES = {FLOAT: TensorType.F32, FLOAT16: TensorType.F16, BFLOAT16: TensorType.BF16}

#: Operators that apply a module's weight, and the index of the input with the weight.
PRODUCTS = {"Conv": 1, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1, "MatMulInteger": 1}
#: Operators between a product and the addition of its bias.
SCALINGS = ("Cast", "Mul", "QuantizeLinear", "DequantizeLinear")
#: Suffix that exporters add to a weight's name for its dequantised form.
DECODED = "_DequantizeLinear_Output"
BIAS = re.compile(r"(?P<stem>.+)(?P<joint>[._])bias")


@dataclass(frozen=True)
class ModuleTensor:
    """A weight in the graph, whether it is stored transposed, and how to dequantise it.

    Scales and zero points are a single number, or one per index of the initializer's `axis`.
    """

    initializer: Initializer
    transposed: bool = False
    scale: Initializer | None = None
    zero_point: Initializer | None = None
    axis: int = 0


class OnnxCheckpoint(Checkpoint):
    """The weights of an exported model. The weight of a matrix product is [outputs, inputs], as in modules.

    Quantised weights are decoded with their scales and zero points. LSTM weights are under `<module>.input`, `.hidden`
    and `.bias` in ONNX's own layout. Constants of the graph that are not weights are left out.
    """

    format = "onnx"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = MappedFile(path)
        self._bytes = self._file.tensor()
        try:
            graph = read_graph(ProtobufMessage(self._file.buffer))
            self.architecture = _architecture(graph)
            self._tensors = {name: self._stored(name, module) for name, module in module_tensors(graph).items()}
        except ProtobufError as error:
            raise CheckpointError(f"{path}: is not a whole ONNX file: {error}") from error
        except (CheckpointError, UnsupportedError) as error:
            raise type(error)(f"{path}: {error}") from error
        self.metadata = _metadata(path)

    def weight(self, name: str, shape: tuple[int, int]) -> Weight:
        """Return a matrix in its stored form, copied if its bytes are not aligned to its type."""
        weight = super().weight(name, shape)
        part = weight.parts[0]
        if part.data.data_ptr() % part.type.block.size:
            return Weight((WeightPart(part.type, part.rows, part.data.clone()),), weight.columns)
        return weight

    def _stored(self, name: str, module: ModuleTensor) -> StoredTensor:
        initializer = module.initializer
        if initializer.data_type in STORED_TYPES and not module.transposed and initializer.span is not None:
            start, end = initializer.span
            return StoredTensor(name, STORED_TYPES[initializer.data_type], initializer.shape, self._bytes[start:end])
        values = self._values(initializer)
        if module.scale is not None:
            values = values.float()
            if module.zero_point is not None:
                values -= self._along(module, module.zero_point)
            values *= self._along(module, module.scale)
        elif initializer.data_type not in STORED_TYPES:
            raise UnsupportedError(f"tensor {name!r} has ONNX type {initializer.data_type}, which is no weight's")
        values = (values.t() if module.transposed else values).contiguous()
        type_ = TensorType.F32 if values.dtype == torch.float32 else STORED_TYPES[initializer.data_type]
        return StoredTensor(name, type_, tuple(values.shape), values.view(-1).view(torch.uint8))

    def _along(self, module: ModuleTensor, numbers: Initializer) -> Tensor:
        """Return scales or zero points in a shape that broadcasts to the weight's."""
        shape = [1] * len(module.initializer.shape)
        if numbers.num_elements > 1:
            shape[module.axis] = -1
        return self._values(numbers).float().view(shape)

    def _values(self, initializer: Initializer) -> Tensor:
        if initializer.values is not None:
            return torch.from_numpy(initializer.values.copy()).view(initializer.shape)
        if initializer.span is None:
            raise UnsupportedError(f"initializer {initializer.name!r} has ONNX type {initializer.data_type}")
        start, end = initializer.span
        raw = self._bytes[start:end].clone()
        if initializer.data_type == BFLOAT16:
            return raw.view(torch.bfloat16).view(initializer.shape)
        return torch.from_numpy(raw.numpy().view(DTYPES[initializer.data_type])).view(initializer.shape)


def _metadata(path: Path) -> dict[str, Any]:
    """Return the file's own config (`name.json`), else the folder's, else the symbol table, else an empty object."""
    for config in (path.with_suffix(".json"), path.parent / CONFIG_NAME):
        if config.exists():
            return read_json_object(config)
    vocabulary = path.parent / VOCABULARY_NAME
    return {"vocab": read_json_object(vocabulary)} if vocabulary.exists() else {}


def is_onnx(start: bytes) -> bool:
    """Return whether a file starts like a model: a small version number, then a known field of the model."""
    return len(start) > 3 and start[0] == 0x08 and 3 <= start[1] <= 20 and start[2] in (0x12, 0x1A, 0x3A, 0x42)


def _architecture(graph: Graph) -> str:
    found = SIGNATURES.get((frozenset(graph.inputs), frozenset(graph.outputs)))
    if found is None:
        raise UnsupportedError(
            f"is an ONNX graph from {sorted(graph.inputs)[:6]} to {sorted(graph.outputs)[:6]}, which is no "
            f"model that is known here; known: {', '.join(sorted(SIGNATURES.values()))}"
        )
    return found


def module_tensors(graph: Graph) -> dict[str, ModuleTensor]:
    """Return the weights of a graph under their modules' names."""
    consumers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            consumers.setdefault(name, []).append(node)
    named: dict[str, ModuleTensor] = {}
    decoded = _decoded(graph)
    claimed = {
        part.name
        for tensor in decoded.values()
        for part in (tensor.initializer, tensor.scale, tensor.zero_point)
        if part is not None
    }
    for node in graph.nodes:
        if node.operator == "LSTM":
            for part, name in zip(("input", "hidden", "bias"), node.inputs[1:4], strict=False):
                if name in graph.initializers:
                    claimed.add(name)
                    named.setdefault(f"{_path(node)}.{part}", ModuleTensor(graph.initializers[name]))
            continue
        index = PRODUCTS.get(node.operator)
        given = "" if index is None or len(node.inputs) <= index else node.inputs[index]
        weight = decoded.get(given) or _plain(node, graph.initializers.get(given), graph)
        if weight is not None and given not in claimed and len(weight.initializer.shape) > 1:
            claimed.add(given)
            own = given.removesuffix(DECODED)
            name = own if _is_module_name(own) else _product_name(node, graph, decoded, consumers)
            if name in named:
                first = named[name].initializer.name
                raise CheckpointError(f"two weights belong to {name!r}: {first!r} and {weight.initializer.name!r}")
            named[name] = replace(weight, transposed=_is_transposed(node, weight.initializer))
    for name, initializer in graph.initializers.items():
        if name not in claimed and _is_module_name(name) and initializer.data_type in STORED_TYPES:
            named.setdefault(name, ModuleTensor(initializer))
    for name, tensor in decoded.items():
        if name not in claimed and _is_module_name(name):
            named.setdefault(name, tensor)
    return named


def _decoded(graph: Graph) -> dict[str, ModuleTensor]:
    """Return quantised constants by the name of their dequantised form."""
    out: dict[str, ModuleTensor] = {}
    for node in graph.nodes:
        constants = [graph.initializers.get(name) for name in node.inputs]
        if node.operator != "DequantizeLinear" or len(constants) < 2 or constants[0] is None or not node.outputs:
            continue
        values, scale, zero = constants[0], constants[1], constants[2] if len(constants) > 2 else None
        dimensions, axis = len(values.shape), node.integers.get("axis", 1)
        channels = values.shape[axis] if -dimensions <= axis < dimensions else 1
        if scale is None or any(part and part.num_elements not in (1, channels) for part in (scale, zero)):
            raise UnsupportedError(f"quantised constant {values.name!r} has no scale and zero point for each channel")
        out[node.outputs[0]] = ModuleTensor(values, scale=scale, zero_point=zero, axis=axis)
    return out


def _plain(node: Node, weight: Initializer | None, graph: Graph) -> ModuleTensor | None:
    """Return a product's own initializer, with its single scale if it is 8-bit, or None without an initializer."""
    if weight is None or weight.data_type not in (INT8, UINT8):
        return None if weight is None else ModuleTensor(weight)
    stem = weight.name.removesuffix("_quantized")
    scale = graph.initializers.get(f"{stem}_scale")
    zero = graph.initializers.get(node.inputs[3]) if len(node.inputs) > 3 else None
    if scale is None or scale.num_elements != 1 or (zero is not None and zero.num_elements != 1):
        raise UnsupportedError(f"8-bit weight {weight.name!r} has no single scale and zero point for all its channels")
    return ModuleTensor(weight, scale=scale, zero_point=zero)


def _is_transposed(node: Node, weight: Initializer) -> bool:
    straight = node.operator in ("Conv", "ConvTranspose") or (node.operator == "Gemm" and node.integers.get("transB"))
    return not straight and len(weight.shape) == 2


def _is_module_name(name: str) -> bool:
    return "." in name and "/" not in name and "::" not in name


def _path(node: Node) -> str:
    """Return the module path of a node: `encoder.lstm` for `/encoder/lstm/LSTM`."""
    return ".".join(node.name.split("/")[1:-1]) or node.name


def _product_name(
    node: Node, graph: Graph, decoded: Mapping[str, ModuleTensor], consumers: Mapping[str, list[Node]]
) -> str:
    """Return the name of a product's weight in its module, from the bias beside it, else from the node's path."""
    candidates = list(node.inputs[2:3])
    last: Node | None = node
    while last is not None and last.outputs:
        after = consumers.get(last.outputs[0], [])
        if len(after) == 1 and after[0].operator == "Add":
            candidates += after[0].inputs
        last = after[0] if len(after) == 1 and after[0].operator in SCALINGS else None
    for name in candidates:
        match = BIAS.fullmatch(name)
        if match is not None and (name in graph.initializers or name in decoded) and _is_module_name(name):
            return f"{match['stem']}{match['joint']}weight"
    return f"{_path(node)}.weight"
