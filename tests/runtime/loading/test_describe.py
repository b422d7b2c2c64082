"""What `info` tells is what the files hold."""

from __future__ import annotations

from pathlib import Path

from antiphon.runtime.loading.describe import describe, device_lines
from antiphon.weights.catalog.resolve import resolve
from support.models.tiny_model import (
    CONFIG,
    CONTEXT,
    EMBEDDING_ROWS,
    HEAD_DIM,
    KV_HEADS,
    LAYERS,
    tiny_state,
    write_folder,
)


def test_figures_of_both_formats(tiny_llama: Path, tiny_gguf: Path) -> None:
    state = tiny_state()
    for path, format_ in ((tiny_llama, "hf"), (tiny_gguf, "gguf")):
        facts = describe(resolve(str(path)))
        assert (facts.format, facts.architecture, facts.obstacle) == (format_, "llama", None)
        assert facts.parameters == sum(tensor.numel() for tensor in state.values())
        assert facts.bytes_by_type == {"F32": (len(state), sum(tensor.nbytes for tensor in state.values()))}
        assert (facts.context, facts.vocabulary) == (CONTEXT, EMBEDDING_ROWS)
        per_token = 2 * LAYERS * KV_HEADS * HEAD_DIM
        # int8 pages need heads of a multiple of 32 channels.
        sizes = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
        assert facts.kv_bytes_per_token == {name: per_token * size for name, size in sizes.items()}
        assert facts.cache_groups == [f"self (full): {LAYERS} layers x {KV_HEADS} heads x {HEAD_DIM}"]


def test_a_model_that_cannot_run_is_still_described(tmp_path: Path) -> None:
    facts = describe(resolve(str(write_folder(tmp_path / "model", config=CONFIG | {"model_type": "mamba"}))))
    assert facts.parameters is not None and facts.context is None
    assert facts.obstacle is not None and "'mamba' is not supported" in facts.obstacle


def test_a_file_that_cannot_be_read_is_still_described(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(4))
    facts = describe(resolve(str(path)))
    assert (facts.file_bytes, facts.architecture) == (8, None)
    assert facts.obstacle is not None and "broken.gguf" in facts.obstacle


def test_devices_of_this_machine() -> None:
    cpu, *_ = device_lines()
    assert cpu.startswith("cpu (CPU): ") and "float32, fp16 pages, 64 requests and 2,048 tokens a step" in cpu
