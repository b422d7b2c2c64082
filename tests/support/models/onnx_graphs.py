"""Exported ONNX graphs run by onnxruntime, as the reference for models and their intermediate values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


class OnnxReference:
    """ONNX graph under onnxruntime that returns its outputs and the intermediate values named in `between`.

    With `unquantised`, 8-bit products are computed on the decoded floats.
    """

    def __init__(self, path: Path, between: Sequence[str] = (), *, unquantised: bool = False) -> None:
        model = onnx.load(path)
        if unquantised:
            _use_floats(model)
        for name in between:
            model.graph.output.append(helper.make_empty_tensor_value_info(name))
        self.names = [output.name for output in model.graph.output]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        options.log_severity_level = 3
        content = model.SerializeToString()
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def __call__(self, **inputs: Array) -> dict[str, Array]:
        return dict(zip(self.names, self._session.run(None, inputs), strict=True))


def _use_floats(model: onnx.ModelProto) -> None:
    """Replace every product of 8-bit integers by the product of the floats that they encode."""
    graph = model.graph
    _drop_rounding(graph)
    constants = {tensor.name: tensor for tensor in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    replaced: dict[int, onnx.NodeProto] = {}
    for node in graph.node:
        if node.op_type != "MatMulInteger":
            continue
        weight = constants[node.input[1]]
        scale = numpy_helper.to_array(constants[weight.name.removesuffix("_quantized") + "_scale"])
        zero = numpy_helper.to_array(constants[node.input[3]]).astype(np.float32)
        name = f"{weight.name}_float"
        if name not in constants:
            values = (numpy_helper.to_array(weight).astype(np.float32) - zero) * scale
            constants[name] = numpy_helper.from_array(values.astype(np.float32), name)
            graph.initializer.append(constants[name])
        cast = users[node.output[0]][0]
        scaled = users[cast.output[0]][0]
        source = makers[node.input[0]].input[0]
        replaced[id(scaled)] = helper.make_node("MatMul", [source, name], [scaled.output[0]], f"{node.name}_float")
    nodes = [replaced.get(id(node), node) for node in graph.node]
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))


def _drop_rounding(graph: onnx.GraphProto) -> None:
    """Remove activations' quantise-dequantise pairs, and decode quantised constants."""
    rounded = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    plain = {
        node.output[0]: rounded[node.input[0]]
        for node in graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in rounded
    }
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    decoded: set[str] = set()
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in constants:
            values, scale, zero = (constants[name] for name in node.input)
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            shape = (
                [-1 if index == axis else 1 for index in range(values.ndim)] if scale.size > 1 else [1] * values.ndim
            )
            floats = (values.astype(np.float32) - zero.astype(np.float32).reshape(shape)) * scale.reshape(shape)
            graph.initializer.append(numpy_helper.from_array(floats.astype(np.float32), node.output[0]))
            decoded.add(node.output[0])
    dropped = {*rounded, *plain, *decoded}
    kept = [node for node in graph.node if node.output[0] not in dropped]
    for node in kept:
        node.input[:] = [plain.get(name, name) for name in node.input]
    del graph.node[:]
    graph.node.extend(kept)
