"""The checks of `benchmarks/gpu`: what they make of figures, apart from a card."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from antiphon.ops import Device

FOLDER = Path(__file__).parents[2] / "benchmarks" / "gpu"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports one of the modules of the checks."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield lambda name: import_module(f"checks.{name}")


def test_gaps_are_those_before_a_step(checks: Any) -> None:
    idle: ModuleType = checks("idle")
    times = [
        ("copy", -5, -4),  # before the first step
        ("decode_inputs", 0, 1), ("product", 3, 8),  # a wait inside a step is none between steps
        ("copy", 8, 9),
        ("decode_inputs", 10, 11), ("product", 10.5, 20),  # kernels may overlap
        ("decode_inputs", 19, 20), ("product", 20, 30),
        ("decode_inputs", 33, 34),
        ("product", 40, 50),  # of a step that is not counted
    ]  # fmt: skip
    gaps = idle.gaps_of([idle.Activity(*one) for one in reversed(times)])
    assert (gaps.steps, gaps.idle, gaps.total) == (4, 1 + 0 + 3, 33)
    assert gaps.share == pytest.approx(4 / 33)
    assert idle.gaps_of([]).share == 0.0


def test_the_first_token_that_differs_decides(checks: Any) -> None:
    found = checks("greedy").Comparison()
    logits = torch.tensor([[9.0, 8, 7, 1, 0], [0, 9, 8, 7, 1], [9, 8, 7, 1, 0]])
    found.add([0, 1, 0], [[0, 1, 2], [1, 2, 3], [0, 1, 2]], logits)
    assert (found.tokens, found.different, found.answers) == (3, 0, 0)
    found.add([1, 1, 4], [[1, 0, 2], [1, 2, 3], [4, 3, 0]], logits)  # the first is near, a later one far
    assert (found.different, found.far, found.answers, found.far_answers) == (2, 1, 1, 0)
    found.add([2, 1, 0], [[2, 3, 4], [1, 2, 3], [0, 1, 2]], logits)  # the reference's token is not in the device's top
    assert (found.different, found.far, found.answers, found.far_answers) == (3, 2, 2, 1)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('{"name": "Tom", "age": 99, "kind": "cat", "tags": [true]}', True),
        ('{"name": "Tom", "age": 100, "kind": "cat", "tags": [true]}', False),
        ('{"name": "Tom", "age": true, "kind": "cat", "tags": [true]}', False),
        ('{"name": "Tom", "age": 9, "kind": "cow", "tags": [true]}', False),
        ('{"name": "Tom", "age": 9, "kind": "cat", "tags": []}', False),
        ('{"name": "Tom", "age": 9, "kind": "cat"}', False),
        ('{"name": "much too long", "age": 9, "kind": "cat", "tags": [true]}', False),
        ('{"name": "Tom", "age": 9', False),
    ],
)
def test_answers_of_a_schema(checks: Any, text: str, valid: bool) -> None:
    schemas = checks("schemas")
    assert schemas.is_answer(text, schemas.schema(0)) is valid


def test_a_check_that_raises_has_failed_and_the_others_run(checks: Any) -> None:
    outcome, run_checks = checks("outcome"), checks("run_checks").run_checks
    subject = outcome.Subject(Device.parse("cpu"))

    def broken(_: Any) -> Iterator[Any]:
        raise RuntimeError("no memory\nmore")

    def fine(_: Any) -> Iterator[Any]:
        yield outcome.Outcome("fine", True, "1 of 1")
        yield outcome.Outcome("unknown", None, "no card")

    found = list(run_checks(subject, ["broken", "fine"], {"broken": broken, "fine": fine}))
    assert outcome.outcome_lines(found) == [
        "FAIL  broken   RuntimeError: no memory",
        "PASS  fine     1 of 1",
        "----  unknown  no card",
    ]


def test_the_reference_is_counted_in_every_thread(checks: Any) -> None:
    from collections import Counter
    from threading import Thread

    from antiphon.ops.reference import rows

    fallbacks, calls = checks("fallbacks"), Counter()
    before = rows.rms_norm
    with fallbacks.counted(calls):
        thread = Thread(target=lambda: rows.rms_norm(torch.ones(2, 4), torch.ones(4), 1e-6))
        thread.start()
        thread.join()
    assert calls == {"rms_norm": 1} and rows.rms_norm is before


def test_the_error_of_a_small_model(checks: Any) -> None:
    accuracy, architectures = checks("accuracy"), checks("architectures")
    sizes = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 50, "num_hidden_layers": 1}
    device = Device.parse("cpu")
    backend = architectures.own_backend(device)
    found = accuracy.compare("qwen3", architectures.ARCHITECTURES["qwen3"] | sizes, device, backend, (1, 2), 3)
    assert found.passed and found.name == "error, qwen3"
