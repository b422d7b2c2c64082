"""Values that people try: OpenAI's voice names, and types of the KV cache that there are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from antiphon.cli.app import app
from antiphon.cli.arguments.model_options import PageType
from antiphon.runtime.loading.config import PAGE_TYPES


@pytest.mark.parametrize("command", [["run", "smollm2-135m", "Hi"], ["chat", "smollm2-135m"], ["serve"]])
def test_an_unknown_type_of_the_cache_is_an_error_of_the_flag(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--kv-type", "int4"])
    assert result.exit_code == 2
    said = " ".join(result.output.replace("│", " ").replace("'", "").split())
    assert "--kv-type" in said and "int4 is not one of fp32, fp16, bf16, int8, fp8" in said


def test_the_types_are_those_of_the_engine() -> None:
    assert list(PAGE_TYPES) == list(get_args(PageType))


@pytest.mark.slow
@pytest.mark.weights
def test_speaking_with_a_voice_of_openai(model_path: Callable[[str], Path], tmp_path: Path) -> None:
    model_path("hibari-6m")
    model_path("english-phonemes")
    made = []
    for voice in ("alloy", "heart"):
        path = tmp_path / f"{voice}.wav"
        arguments = ["speak", "Hello.", "--model", "hibari-6m", "--voice", voice, "-o", str(path), "--offline"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        made.append(path.read_bytes())
    assert made[0] == made[1] and len(made[0]) > 10_000
