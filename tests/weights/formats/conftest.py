from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFValueType, GGUFWriter, quants
from gguf.constants import GGMLQuantizationType

from antiphon.weights.types import TensorType

#: Types of the sample's tensors that the `gguf` package cannot encode; any bytes are valid for them.
RAW_TYPES = (TensorType.Q4_K, TensorType.Q6_K, TensorType.IQ2_XXS, TensorType.IQ4_XS)


def write_sample(path: Path, split_max_tensors: int = 0) -> None:
    """A small GGUF file with every kind of metadata value and tensors of many types, written by the `gguf` package."""
    random = np.random.default_rng(0)
    writer = GGUFWriter(path, "llama", split_max_tensors=split_max_tensors)
    writer.add_name("a sample")
    writer.add_context_length(128)
    writer.add_uint8("sample.uint8", 200)
    writer.add_int8("sample.int8", -100)
    writer.add_uint16("sample.uint16", 60_000)
    writer.add_int16("sample.int16", -30_000)
    writer.add_int32("sample.int32", -2_000_000_000)
    writer.add_float32("sample.float32", 0.1)
    writer.add_uint64("sample.uint64", 2**63 + 1)
    writer.add_int64("sample.int64", -(2**62))
    writer.add_float64("sample.float64", 0.1)
    writer.add_bool("sample.bool", True)
    writer.add_string("sample.string", "Grüße, 世界 🌍")
    writer.add_array("sample.bools", [True, False, True])
    writer.add_key_value("sample.nested", [[1, 2], [3]], GGUFValueType.ARRAY, sub_type=GGUFValueType.ARRAY)
    writer.add_token_list([f"token{index}é" for index in range(40)])
    writer.add_token_merges([f"a{index} b{index}" for index in range(20)])
    writer.add_token_scores([-0.5 * index for index in range(40)])
    writer.add_token_types([1] * 40)
    writer.add_tensor("token_embd.weight", random.standard_normal((6, 32), dtype=np.float32))
    writer.add_tensor("norm.weight", random.standard_normal(7, dtype=np.float32))
    writer.add_tensor("conv.weight", random.standard_normal((3, 2, 5)).astype(np.float16))
    for type in (
        GGMLQuantizationType.BF16,
        GGMLQuantizationType.Q8_0,
        GGMLQuantizationType.Q5_0,
        GGMLQuantizationType.Q4_1,
    ):
        encoded = quants.quantize(random.standard_normal((4, 64), dtype=np.float32), type)
        writer.add_tensor(f"{type.name}.weight", encoded, raw_dtype=type)
    for raw in RAW_TYPES:
        encoded = random.integers(0, 0x7B, (2, raw.block.size), dtype=np.uint8)
        writer.add_tensor(f"{raw.name}.weight", encoded, raw_dtype=GGMLQuantizationType(int(raw)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="session")
def sample_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "sample.gguf"
    write_sample(path)
    return path


@pytest.fixture
def split_gguf(tmp_path: Path) -> list[Path]:
    """The same in parts of four tensors."""
    write_sample(tmp_path / "sample.gguf", split_max_tensors=4)
    return sorted(tmp_path.glob("sample-*.gguf"))
