"""`antiphon analyze`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon.cli.app import app
from antiphon.cli.catalog.analyze import parsed_limits
from antiphon.errors import (
    AntiphonError,
    ContextLengthError,
    InvalidRequestError,
    ModelNotFoundError,
    UnsupportedError,
    UsageError,
)
from antiphon.ops import available_backends
from antiphon.runtime.loading.machine_limits import GivenLimits
from support.models.tiny_model import CONFIG, CONTEXT, write_bert, write_folder

LIMITS = ("--limits", "50,400,1600")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    app(["analyze", *arguments], prog_name="antiphon", standalone_mode=False)
    return capsys.readouterr().out


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(printed(capsys, *arguments, "--json"))


def test_tables_and_json_have_the_same_figures(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--device", "cpu", "--batch", "4", "--prompt", "30", "--context", "90", "--kv-memory", "64")
    text = printed(capsys, str(tiny_llama), *sizes, *LIMITS)
    found = figures(capsys, str(tiny_llama), *sizes, *LIMITS)
    assert (found["batch"], found["prompt"], found["context"]) == (4, 30, 90)
    assert found["limits"] == {
        "bytes_per_second": 50e9, "macs_per_second": 400e9, "int8_macs_per_second": 1600e9, "measured": False,
    }  # fmt: skip
    assert "limits, given: 50.0 GB/s, 400.0 GMAC/s, 1,600.0 GMAC/s of int8" in text
    for name, phase in found["phases"].items():
        assert f"{name} of 4 requests" in text
        parts = phase["parts"].values()
        for key in ("bytes", "macs", "floor_seconds"):
            assert sum(part[key] for part in parts) == pytest.approx(phase[key])
    decode = found["phases"]["decode"]
    assert decode["tokens_per_second"] == pytest.approx(4 / decode["floor_seconds"])
    assert f"{decode['floor_seconds'] * 1e3:,.2f} ms a token at best" in text
    table = text.partition("decode of")[2].splitlines()[1:]
    row = next(line.split() for line in table if line.startswith("  MLP"))
    mlp, batches = decode["parts"]["MLP"], decode["operations_from_batch"]
    assert row[1:3] == [f"{mlp['bytes'] / 1e6:,.3f}", f"{mlp['macs'] / 1e6:,.3f}"]
    assert row[-2:] == [mlp["limited_by"], str(batches["MLP"])]
    pages = found["kv"]["pages"]["fp16"]
    assert found["kv"]["budget_bytes"] == 64 << 20
    row = next(line.split() for line in text.splitlines() if line.startswith("  fp16"))
    sizes_shown = f"{pages['bytes_per_token']:,.0f}", f"{pages['bytes_per_request'] / 1e6:,.3f}"
    assert row[1:] == [*sizes_shown, f"{pages['requests_that_fit']:,}"]


@pytest.mark.skipif("native" not in available_backends(), reason="needs the native backend")
def test_limits_of_this_machine_and_what_a_run_reaches(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (str(tiny_llama), "--device", "cpu", "--prompt", "20", "--context", "20", "--profile")
    found = figures(capsys, *arguments)
    assert found["limits"]["measured"] and found["limits"]["bytes_per_second"] > 1e8
    assert set(found["reached"]) == {"prefill", "decode"}
    for phase in found["reached"].values():
        assert phase["share"] == phase["floor_seconds"] / phase["seconds"]
        assert phase["kinds"]["linear F32"]["share_of_limit"] > 0


def test_a_context_of_half_the_model_where_it_takes_few_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "tiny", config=CONFIG | {"max_position_embeddings": 100})
    found = figures(capsys, str(folder), "--device", "cpu", *LIMITS)
    assert (found["prompt"], found["context"]) == (50, 50)


@needs_no_gpu
def test_a_gpu_that_is_not_here(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, str(tiny_llama), "--device", "cuda", *LIMITS)
    assert (found["device"], found["is_here"], found["kv"]["page_type"]) == ("cuda", False, "bf16")
    assert found["kv"]["pages"]["fp8"]["requests_that_fit"] is None
    assert found["not_known"] == ["how many requests fit: cuda is not on this machine; give --kv-memory"]
    on_cpu = figures(capsys, str(tiny_llama), "--device", "cpu", *LIMITS)
    assert on_cpu["weight_bytes"] == 2 * found["weight_bytes"]  # in bf16 there
    text = printed(capsys, str(tiny_llama), "--device", "cuda", *LIMITS)
    assert "not known: how many requests fit: cuda is not on this machine; give --kv-memory" in text
    enough = figures(capsys, str(tiny_llama), "--device", "cuda", "--kv-memory", "100000", *LIMITS)
    assert enough["not_known"] == [] and enough["kv"]["pages"]["fp8"]["requests_that_fit"] > 1000


@needs_no_gpu
@pytest.mark.parametrize("more", [(), ("--profile", *LIMITS)])
def test_a_gpu_that_is_not_here_can_be_neither_measured_nor_run(tiny_llama: Path, more: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match=r"CUDA|NVIDIA"):
        app(["analyze", str(tiny_llama), "--device", "cuda", *more], standalone_mode=False)


@pytest.mark.parametrize(
    ("text", "limits"),
    [("50,400", GivenLimits(50e9, 400e9)), ("0.5, 2e3 ,7", GivenLimits(0.5e9, 2e12, 7e9))],
)
def test_limits(text: str, limits: GivenLimits) -> None:
    assert parsed_limits(text) == limits


@pytest.mark.parametrize("text", ["", "50", "50;400", "50,", "1,2,3,4", "0,5", "5,-1", "nan,1", "1,inf", "fast,400"])
def test_malformed_limits(text: str) -> None:
    with pytest.raises(
        UsageError, match="give GB/s and GMAC/s as positive numbers with a comma, as in 50,400"
    ) as error:
        parsed_limits(text)
    assert str(error.value).startswith(f"--limits {text!r}: ")


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("--context", f"{CONTEXT}"), ContextLengthError, "a token after 4,096 others was asked for; .* takes 4,096 "),
        (("--prompt", f"{CONTEXT + 1}"), ContextLengthError, "a prompt of 4,097 tokens was given; .* takes 4,096"),
        (("--kv-type", "int8"), InvalidRequestError, "int8 pages need a head size divisible by 32, not 16"),
        (("--kv-type", "fp8"), UnsupportedError, "fp8 pages are not supported on the CPU"),
        (("--quantize", "fp8"), UnsupportedError, "fp8 weights need an NVIDIA GPU"),
    ],
)
def test_sizes_that_the_model_does_not_have(
    tiny_llama: Path, arguments: tuple[str, ...], kind: type[AntiphonError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        app(["analyze", str(tiny_llama), "--device", "cpu", *LIMITS, *arguments], standalone_mode=False)


def test_an_unknown_model() -> None:
    with pytest.raises(ModelNotFoundError, match="'nosuch'"):
        app(["analyze", "nosuch", *LIMITS], standalone_mode=False)


def test_a_model_without_a_decoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(write_bert(tmp_path))
    text = printed(capsys, folder, "--device", "cpu", "--batch", "2", "--prompt", "9", *LIMITS)
    assert "embed of 2 texts of 9 tokens" in text
    assert "decode of" not in text and "keys and values" not in text
    with pytest.raises(UnsupportedError, match="is an embedding model; --profile is for models that generate text"):
        app(["analyze", folder, "--device", "cpu", "--profile", *LIMITS], standalone_mode=False)
