"""ONNX files read without the `onnx` package, held against it; damaged ones are rejected."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from antiphon.errors import AntiphonError, CheckpointError, UnsupportedError
from antiphon.ops.reference.weights import dense
from antiphon.weights.formats.onnx import OnnxCheckpoint
from antiphon.weights.formats.open import open_checkpoint

RNG = np.random.default_rng(5)


def array(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


WEIGHTS = {
    "onnx::Conv_7": array(4, 3, 5),
    "net.conv.bias": array(4),
    "onnx::MatMul_8": array(4, 6),
    "net.first.bias": array(6),
    "net.second.weight": array(7, 6),
    "net.second.bias": array(7),
    "onnx::LSTM_1": array(2, 8, 7),
    "onnx::LSTM_2": array(2, 8, 2),
    "onnx::LSTM_3": array(2, 16),
    "/net/plain/Transpose_output_0": array(4, 9),
}
QUANTISED = RNG.integers(-127, 128, (9, 5)).astype(np.int8)


def sample_model(**changes: Any) -> onnx.ModelProto:
    """A graph that uses its weights in every way that exporters leave them in."""
    nodes = [
        helper.make_node("Conv", ["chars", "onnx::Conv_7", "net.conv.bias"], ["a"], "/net/conv/Conv"),
        helper.make_node("MatMul", ["a", "onnx::MatMul_8"], ["b"], "/net/first/MatMul"),
        helper.make_node("Add", ["net.first.bias", "b"], ["c"], "/net/first/Add"),
        helper.make_node("Gemm", ["c", "net.second.weight", "net.second.bias"], ["d"], "/net/second/Gemm", transB=1),
        helper.make_node("LSTM", ["d", "onnx::LSTM_1", "onnx::LSTM_2", "onnx::LSTM_3"], ["e"], "/net/lstm/LSTM"),
        helper.make_node("MatMul", ["e", "/net/plain/Transpose_output_0"], ["f"], "/net/plain/MatMul"),
        helper.make_node("DynamicQuantizeLinear", ["f"], ["fq", "fs", "fz"], "/net/third/Quantize"),
        helper.make_node(
            "MatMulInteger", ["fq", "w_quantized", "fz", "w_zero_point"], ["g"], "/net/third/MatMul_quant"
        ),
        helper.make_node("Cast", ["g"], ["h"], "/net/third/Cast", to=1),
        helper.make_node("Mul", ["h", "fs"], ["i"], "/net/third/Mul"),
        helper.make_node("Add", ["net.third_bias", "i"], ["ids"], "/net/third/Add"),
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items()]
    tensors += [
        numpy_helper.from_array(QUANTISED, "w_quantized"),
        helper.make_tensor("w_scale", TensorProto.FLOAT, [], [0.25]),
        helper.make_tensor("w_zero_point", TensorProto.INT8, [], [3]),
        helper.make_tensor("net.third_bias", TensorProto.FLOAT, [5], [1.0, 2.0, 3.0, 4.0, 5.0]),
        numpy_helper.from_array(np.arange(4), "onnx::Reshape_9"),
    ]
    inputs = [helper.make_tensor_value_info(changes.get("input", "chars"), TensorProto.FLOAT, [1, 3, 8])]
    outputs = [helper.make_tensor_value_info("ids", TensorProto.FLOAT, None)]
    return helper.make_model(helper.make_graph(nodes, "sample", inputs, outputs, tensors))


def saved(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_are_under_their_modules_names(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(saved(tmp_path / "m.onnx", sample_model()))
    assert isinstance(checkpoint, OnnxCheckpoint) and checkpoint.architecture == "letter-to-sound"
    expected = {
        "net.conv.weight": WEIGHTS["onnx::Conv_7"],
        "net.conv.bias": WEIGHTS["net.conv.bias"],
        "net.first.weight": WEIGHTS["onnx::MatMul_8"].T,
        "net.first.bias": WEIGHTS["net.first.bias"],
        "net.second.weight": WEIGHTS["net.second.weight"],
        "net.second.bias": WEIGHTS["net.second.bias"],
        "net.lstm.input": WEIGHTS["onnx::LSTM_1"],
        "net.lstm.hidden": WEIGHTS["onnx::LSTM_2"],
        "net.lstm.bias": WEIGHTS["onnx::LSTM_3"],
        "net.plain.weight": WEIGHTS["/net/plain/Transpose_output_0"].T,
        "net.third_weight": (QUANTISED.astype(np.float32) - 3.0).T * 0.25,
        "net.third_bias": np.arange(1.0, 6.0, dtype=np.float32),
    }
    assert set(checkpoint.tensors()) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(checkpoint.tensor(name, values.shape).numpy(), values)
    weight = checkpoint.weight("net.first.weight", (6, 4))
    torch.testing.assert_close(dense(weight), torch.from_numpy(WEIGHTS["onnx::MatMul_8"].T.copy()))


def quantised_model(scales: int = 6) -> onnx.ModelProto:
    """Products whose constants nodes of the graph decode, with a scale for each channel, as static quantising does."""

    def decode(name: str, shape: tuple[int, ...], channels: int, axis: int, kind: Any, output: str) -> None:
        values = RNG.integers(-127, 128, shape).astype(kind)
        inputs = [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"]
        zeros = RNG.integers(-3, 4, channels).astype(kind)
        for part, given in zip(inputs, (values, np.abs(array(channels)), zeros), strict=True):
            tensors.append(numpy_helper.from_array(given, part))
        nodes.append(helper.make_node("DequantizeLinear", inputs, [output], f"{name}_decode", axis=axis))

    tensors: list[TensorProto] = []
    nodes: list[onnx.NodeProto] = []
    decode("net.first.weight", (6, 8), scales, 0, np.int8, "net.first.weight_DequantizeLinear_Output")
    decode("net.first.bias", (6,), 6, 0, np.int32, "net.first.bias")
    decode("val_1", (6, 5), 5, 1, np.int8, "val_1_DequantizeLinear_Output")
    decode("val_2", (5, 4), 4, -1, np.int8, "val_2_DequantizeLinear_Output")
    tensors += [numpy_helper.from_array(array(5), "net.second.bias")]
    tensors += [
        helper.make_tensor("s", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("z", TensorProto.INT8, [], [2]),
    ]
    first = ["chars", "net.first.weight_DequantizeLinear_Output", "net.first.bias"]
    nodes += [
        helper.make_node("Gemm", first, ["a"], "node_linear", transB=1),
        helper.make_node("MatMul", ["a", "val_1_DequantizeLinear_Output"], ["b"], "node_MatMul_3"),
        helper.make_node("QuantizeLinear", ["b", "s", "z"], ["bq"], "b_quantize"),
        helper.make_node("DequantizeLinear", ["bq", "s", "z"], ["c"], "b_decode"),
        helper.make_node("Add", ["c", "net.second.bias"], ["d"], "node_linear_1"),
        helper.make_node("MatMul", ["d", "val_2_DequantizeLinear_Output"], ["ids"], "node_linear_2"),
    ]
    inputs = [helper.make_tensor_value_info("chars", TensorProto.FLOAT, [1, 8])]
    outputs = [helper.make_tensor_value_info("ids", TensorProto.FLOAT, None)]
    return helper.make_model(helper.make_graph(nodes, "quantised", inputs, outputs, tensors))


def test_constants_that_the_graph_decodes(tmp_path: Path) -> None:
    model = quantised_model()
    checkpoint = OnnxCheckpoint(saved(tmp_path / "m.onnx", model))
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    expected = {"net.second.bias": stored["net.second.bias"]}
    for ours, theirs, columns in [
        ("net.first.weight", "net.first.weight", False),
        ("net.first.bias", "net.first.bias", True),
        ("net.second.weight", "val_1", True),
        ("node_linear_2.weight", "val_2", True),
    ]:
        values, scale, zero = (stored[f"{theirs}_{part}"] for part in ("quantized", "scale", "zero_point"))
        scale, zero = (scale, zero) if columns else (scale[:, None], zero[:, None])
        decoded = (values.astype(np.float32) - zero) * scale
        expected[ours] = decoded.T if columns else decoded
    assert set(checkpoint.tensors()) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(checkpoint.tensor(name, values.shape).numpy(), values.astype(np.float32))


def test_scales_that_fit_no_channels_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"'net\.first\.weight_quantized' has no scale and zero point for each"):
        OnnxCheckpoint(saved(tmp_path / "m.onnx", quantised_model(scales=5)))


def test_an_unknown_graph_is_rejected_by_what_it_takes(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"from \['pixels'\] to \['ids'\]"):
        OnnxCheckpoint(saved(tmp_path / "m.onnx", sample_model(input="pixels")))


def test_weights_in_another_file_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(sample_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with pytest.raises(UnsupportedError, match="external data"):
        OnnxCheckpoint(path)


def _shape_lies(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 5


def _twice(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def _negative(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = -4


@pytest.mark.parametrize("damage", [_shape_lies, _twice, _negative])
def test_a_lying_initializer_is_rejected(damage: Callable[[onnx.ModelProto], None], tmp_path: Path) -> None:
    model = sample_model()
    damage(model)
    with pytest.raises(CheckpointError, match="onnx::Conv_7"):
        OnnxCheckpoint(saved(tmp_path / "m.onnx", model))


@pytest.mark.parametrize("make", [sample_model, quantised_model])
def test_damaged_files_end_in_our_own_errors(
    make: Callable[[], onnx.ModelProto], tmp_path: Path, soak: bool, seed: int
) -> None:
    content = make().SerializeToString()
    chance = random.Random(seed)
    rejected = 0
    for trial in range(20_000 if soak else 400):
        damaged = bytearray(content)
        if trial % 4 == 0:
            damaged = damaged[: chance.randrange(1, len(damaged))]
        else:
            for _ in range(chance.randrange(1, 6)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path = tmp_path / f"{trial % 8}.onnx"
        path.unlink(missing_ok=True)
        path.write_bytes(damaged)
        try:
            checkpoint = OnnxCheckpoint(path)
            for name, tensor in checkpoint.tensors().items():
                checkpoint.tensor(name, tensor.shape)
        except AntiphonError:
            rejected += 1
    assert rejected > 50


@pytest.mark.weights
def test_a_real_file_agrees_with_the_onnx_package(model_path: Callable[[str], Path]) -> None:
    path = model_path("kokoro-82m")
    checkpoint = OnnxCheckpoint(path)
    theirs = {tensor.name: tensor for tensor in onnx.load(path).graph.initializer}
    assert checkpoint.architecture == "kokoro"
    shared = [name for name in checkpoint.tensors() if name in theirs]
    assert len(shared) > 250
    for name in shared[::7]:
        values = numpy_helper.to_array(theirs[name])
        np.testing.assert_array_equal(checkpoint.tensor(name, values.shape).numpy(), values)
