"""The graph of an ONNX file: its nodes, and the positions of its constant tensors.

Hand-written: the `onnx` package loads a file whole; here an untrusted one is validated and its tensors stay mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.formats.protobuf import LENGTH, Field, ProtobufMessage

MAX_NODES = 200_000
MAX_INITIALIZERS = 100_000
MAX_NAME_BYTES = 4096
MAX_DIMENSIONS = 8
MAX_LISTED_NUMBERS = 1 << 20

#: ONNX's data type numbers.
FLOAT, UINT8, INT8, INT32, INT64, FLOAT16, DOUBLE, BFLOAT16 = 1, 2, 3, 6, 7, 10, 11, 16
DTYPES: dict[int, np.dtype[Any]] = {
    FLOAT: np.dtype("<f4"),
    UINT8: np.dtype("u1"),
    INT8: np.dtype("i1"),
    INT32: np.dtype("<i4"),
    INT64: np.dtype("<i8"),
    FLOAT16: np.dtype("<f2"),
    DOUBLE: np.dtype("<f8"),
    BFLOAT16: np.dtype("<u2"),
}


@dataclass(frozen=True, slots=True)
class Node:
    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    integers: Mapping[str, int]  # attributes by name


@dataclass(frozen=True, slots=True)
class Initializer:
    """A constant tensor: its raw bytes are at `span` in the file, or else its elements are in `values`."""

    name: str
    data_type: int
    shape: tuple[int, ...]
    span: tuple[int, int] | None
    values: NDArray[Any] | None

    @property
    def num_elements(self) -> int:
        return prod(self.shape)


@dataclass
class Graph:
    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, Initializer] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def read_graph(model: ProtobufMessage) -> Graph:
    """Return the graph of a ModelProto. Sizes are checked; weights stay in the file."""
    graph: Graph | None = None
    version = 0
    for entry in model.fields():
        if entry.number == 1 and entry.wire_type != LENGTH:
            version = entry.value
        elif entry.number == 7:
            graph = _graph(model.message(entry))
    if graph is None or not 1 <= version <= 1000 or not graph.nodes:
        raise CheckpointError("is not an ONNX model: it has no graph")
    return graph


def _graph(message: ProtobufMessage) -> Graph:
    graph = Graph()
    for entry in message.fields():
        if entry.number == 1:
            if len(graph.nodes) >= MAX_NODES:
                raise CheckpointError(f"the graph has more than {MAX_NODES} nodes")
            graph.nodes.append(_node(message.message(entry)))
        elif entry.number == 5:
            initializer = _initializer(message.message(entry))
            if initializer.name in graph.initializers:
                raise CheckpointError(f"initializer {initializer.name!r} is there twice")
            if len(graph.initializers) >= MAX_INITIALIZERS:
                raise CheckpointError(f"the graph has more than {MAX_INITIALIZERS} initializers")
            graph.initializers[initializer.name] = initializer
        elif entry.number in (11, 12):
            value = message.message(entry)
            names = [value.text(part, MAX_NAME_BYTES) for part in value.fields() if part.number == 1]
            (graph.inputs if entry.number == 11 else graph.outputs).extend(names)
    graph.inputs = [name for name in graph.inputs if name not in graph.initializers]
    return graph


def _node(message: ProtobufMessage) -> Node:
    operator = name = ""
    inputs: list[str] = []
    outputs: list[str] = []
    integers: dict[str, int] = {}
    for entry in message.fields():
        if entry.number == 1:
            inputs.append(message.text(entry, MAX_NAME_BYTES))
        elif entry.number == 2:
            outputs.append(message.text(entry, MAX_NAME_BYTES))
        elif entry.number == 3:
            name = message.text(entry, MAX_NAME_BYTES)
        elif entry.number == 4:
            operator = message.text(entry, MAX_NAME_BYTES)
        elif entry.number == 5:
            key, value = _integer_attribute(message.message(entry))
            if value is not None:
                integers[key] = value
    return Node(operator, name, tuple(inputs), tuple(outputs), integers)


def _integer_attribute(message: ProtobufMessage) -> tuple[str, int | None]:
    name = ""
    value: int | None = None
    for entry in message.fields():
        if entry.number == 1:
            name = message.text(entry, MAX_NAME_BYTES)
        elif entry.number == 3:
            value = message.integers(entry, 1)[0]
    return name, value


def _initializer(message: ProtobufMessage) -> Initializer:
    name, data_type = "", 0
    shape: list[int] = []
    span: tuple[int, int] | None = None
    listed: list[NDArray[Any]] = []
    for entry in message.fields():
        if entry.number == 1:
            shape += message.integers(entry, MAX_DIMENSIONS)
        elif entry.number == 2:
            data_type = entry.value
        elif entry.number in (4, 5, 7, 10):
            listed.append(_listed(message, entry))
        elif entry.number == 8:
            name = message.text(entry, MAX_NAME_BYTES)
        elif entry.number == 9 and entry.wire_type == LENGTH:
            span = (entry.start, entry.end)
        elif entry.number == 13 or (entry.number == 14 and entry.value == 1):
            raise UnsupportedError(f"initializer {name!r} lies in another file (external data), which is not read")
    dtype = DTYPES.get(data_type)
    if len(shape) > MAX_DIMENSIONS or any(not 0 <= size < 1 << 40 for size in shape):
        raise CheckpointError(f"initializer {name!r} has shape {shape[: MAX_DIMENSIONS + 1]}")
    if dtype is None:  # strings, booleans and the like are never weights
        return Initializer(name, data_type, tuple(shape), None, None)
    count = prod(shape)
    if span is not None:
        if span[1] - span[0] != count * dtype.itemsize:
            raise CheckpointError(
                f"initializer {name!r} has {span[1] - span[0]} bytes; shape {shape} needs {count * dtype.itemsize}"
            )
        return Initializer(name, data_type, tuple(shape), span, None)
    values = np.concatenate(listed) if listed else np.zeros(0, dtype)
    if len(values) != count:
        raise CheckpointError(f"initializer {name!r} lists {len(values)} values; shape {shape} needs {count}")
    if data_type == FLOAT16:  # listed as bit patterns
        return Initializer(name, data_type, tuple(shape), None, values.astype("<u2").view("<f2"))
    return Initializer(name, data_type, tuple(shape), None, values.astype(dtype))


def _listed(message: ProtobufMessage, entry: Field) -> NDArray[Any]:
    if entry.number == 4:
        return message.array(entry, np.dtype("<f4"))
    if entry.number == 10:
        return message.array(entry, np.dtype("<f8"))
    return np.array(message.integers(entry, MAX_LISTED_NUMBERS), np.int64)
