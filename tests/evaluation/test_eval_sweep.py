"""Sweeps: combinations of settings, exact divergence, figures, the table and the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon.bench.load.objectives import Objectives
from antiphon.errors import InvalidRequestError, UnsupportedError
from antiphon.evaluation.settings import KEYS, EngineSetting, cross_product, opened, parse_setting
from antiphon.evaluation.sweep import speed
from antiphon.evaluation.sweep.divergence import compared_tokens, divergence, kl_rows, reference_rows
from antiphon.evaluation.sweep.report import sweep_report
from antiphon.evaluation.sweep.speed import pieces
from antiphon.evaluation.sweep.sweep import Measured, Sweep, sweep_result
from antiphon.evaluation.sweep.table import sweep_table
from antiphon.evaluation.task import TaskOptions
from antiphon.evaluation.tasks.perplexity import Perplexity
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.loading.weight_forms import WeightOptions
from support.pages.report_page import ReportPage

TEXT = "hello there, the bells ring twice and the hill tells the tale " * 6
SMALL: dict[str, Any] = {"kv_bytes": 16 << 20}


def test_every_combination_in_order() -> None:
    found = cross_product(EngineSetting({"quantize": "q4"}), ["kv=fp16,int8", "repack=on,off"])
    assert [str(setting) for setting in found] == [
        "quantize=q4 kv=fp16 repack=on", "quantize=q4 kv=fp16 repack=off",
        "quantize=q4 kv=int8 repack=on", "quantize=q4 kv=int8 repack=off",
    ]  # fmt: skip
    assert found[3].config() == {"quantize": "q4", "key_type": "int8", "value_type": "int8", "repack": False}
    assert found[0].weights() == found[2].weights() != found[1].weights()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["kv"], "'kv' is not a setting; write KEY=VALUE"),
        (["kv="], "'kv=' is not a setting"),
        (["size=1"], "there is no setting 'size'; there are: kv, repack, quantize"),
        (["kv=fp16,int9"], "kv is 'int9'; it must be one of: fp32, fp16"),
        (["kv=fp16,fp16"], "has a value twice"),
        (["kv=fp16", "kv=int8"], "--sweep has 'kv' twice"),
        (
            ["kv=fp32,fp16,bf16,int8,fp8", "repack=on,off", "quantize=none,int8,q4,fp8"],
            "--sweep has 5 × 2 × 4 = 40 settings; at most 32 are measured",
        ),
    ],
)
def test_sweeps_that_cannot_be(parts: list[str], message: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        cross_product(EngineSetting({}), parts)
    assert message in str(error.value)


def test_a_setting_has_one_value() -> None:
    assert parse_setting(["kv=int8", "record=off"]) == {"kv": "int8", "record": "off"}
    with pytest.raises(InvalidRequestError, match="has 2 values"):
        parse_setting(["kv=int8,fp16"])


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_is_one_of_an_engine(key: str) -> None:
    for fields in KEYS[key].values.values():
        EngineConfig(**fields)


def test_divergence_is_that_of_torch() -> None:
    generator = torch.Generator().manual_seed(1)
    one, other = (torch.randn(7, 300, generator=generator, dtype=torch.float64).log_softmax(-1) for _ in range(2))
    expected = torch.nn.functional.kl_div(other, one, reduction="none", log_target=True).sum(-1)
    assert torch.allclose(kl_rows(one, other), expected, rtol=1e-12)
    assert kl_rows(one.float(), one.float()).max() == 0


@pytest.fixture(autouse=True)
def few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the speed of each setting with few and short answers."""
    for name, value in {"PROMPT_TOKENS": 24, "ANSWER_TOKENS": 4, "SINGLE": 1, "TOGETHER": 2}.items():
        monkeypatch.setattr(speed, name, value)


@pytest.fixture(scope="module")
def load(tiny_llama: Path) -> Callable[[EngineSetting], LoadedModel]:
    def loaded(setting: EngineSetting) -> LoadedModel:
        config = setting.config()
        options = WeightOptions(config.get("repack", True), config.get("quantize"))
        return load_model(str(tiny_llama), options=options, device="cpu")

    return loaded


def test_distributions_are_those_of_transformers(
    load: Callable[[EngineSetting], LoadedModel], tiny_llama: Path
) -> None:
    """Also of a prompt that is computed in several pieces, beside another request."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32).eval()
    loaded = load(EngineSetting({}))
    tokens = loaded.tokenizer.encode(TEXT)
    with opened(loaded, EngineSetting({"kv": "fp32"}), chunk_tokens=50, **SMALL) as subject:
        with subject.engine.stream("hello"):
            rows = reference_rows(subject, tokens)
        answer = subject.engine.distributions(tokens, lambda start, rows: None)
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, :-1]
    expected = logits[:, : loaded.tokenizer.vocab_size].log_softmax(-1)  # rows beyond the vocabulary are never drawn
    assert rows.shape == expected.shape
    assert torch.allclose(rows, expected, atol=1e-3)
    own = rows[torch.arange(len(rows)), torch.tensor(tokens[1:])]
    assert answer.prompt_logprobs == pytest.approx(own.tolist(), abs=1e-4)


def test_coarser_caches_diverge(load: Callable[[EngineSetting], LoadedModel]) -> None:
    """The divergence is that of the two tables of log-probabilities, by torch."""
    loaded = load(EngineSetting({}))
    tokens = loaded.tokenizer.encode(TEXT)
    with opened(loaded, EngineSetting({"kv": "fp32"}), **SMALL) as subject:
        reference = reference_rows(subject, tokens)
        itself = divergence(subject, tokens, reference)
    with opened(loaded, EngineSetting({"kv": "bf16"}), **SMALL) as subject:
        found, rows = divergence(subject, tokens, reference), reference_rows(subject, tokens)
    expected = torch.nn.functional.kl_div(rows.double(), reference.double(), reduction="none", log_target=True).sum(-1)
    assert found.nats == pytest.approx(expected.clamp(min=0).tolist(), abs=1e-9)
    assert found.agreement == pytest.approx(float((rows.argmax(-1) == reference.argmax(-1)).float().mean()))
    assert itself.mean == 0 and itself.agreement == 1
    assert found.mean > 0


def test_what_is_compared_fits_memory() -> None:
    tokens = list(range(5000))
    assert len(compared_tokens(tokens, 1000, 4096)) == 513
    assert len(compared_tokens(tokens, 1000, 100)) == 100
    assert len(compared_tokens(tokens, 1 << 20, 4096)) == 129  # 512 MiB


def test_pieces_differ_and_have_the_length() -> None:
    for size in (3, 40, 5000):
        found = pieces(list(range(size)), 12, 30)
        assert len(found) == 12 and all(len(piece) == 30 for piece in found)
    assert len({piece[0] for piece in found}) == 12


def run_sweep(load: Callable[[EngineSetting], LoadedModel], *parts: str) -> tuple[list[Measured], dict[str, Any]]:
    task = Perplexity(TaskOptions(context=64))
    objectives = Objectives.parse("ttft:60000,tpot:60000")
    sweep = Sweep(task, [TEXT], TEXT, load, objectives=objectives, options=SMALL)
    settings = cross_product(EngineSetting({}), parts)
    rows = list(sweep.run(settings, lambda setting: lambda done, total: None))
    return rows, sweep_result("tiny", "a text", sweep, rows, {"context": 64}, len(settings))


@pytest.mark.long("measures the speed of five settings")
def test_a_sweep_and_its_page(load: Callable[[EngineSetting], LoadedModel]) -> None:
    rows, result = run_sweep(load, "quantize=none,q4", "kv=fp32,bf16,fp8")
    by_label = {row.label: row for row in rows}
    exact, bf16 = by_label["quantize=none kv=fp32"], by_label["quantize=none kv=bf16"]
    q4, fp8 = by_label["quantize=q4 kv=fp32"], by_label["quantize=none kv=fp8"]
    assert exact is rows[0] and exact.kl_divergence == 0 and exact.same_top_token == 1
    assert bf16.kl_divergence and q4.kl_divergence and 0 < bf16.kl_divergence < q4.kl_divergence
    assert (
        bf16.kv_bytes_per_token and exact.kv_bytes_per_token and bf16.kv_bytes_per_token == exact.kv_bytes_per_token / 2
    )
    assert q4.weights_bytes and exact.weights_bytes and q4.weights_bytes < exact.weights_bytes / 2
    assert fp8.error is not None and "fp8 pages are not supported on the CPU" in fp8.error
    assert all(row.goodput and row.tokens_per_second for row in rows if row.error is None)
    table = sweep_table(result)
    assert "fp8 pages are not supported" in table and "exact over the vocabulary" in table and "KL nats" in table
    page = ReportPage(sweep_report(result))
    assert {"quality-speed", "divergence-speed", "quality-memory", "latency"} <= set(page.plots)
    assert "fp8 pages are not supported" in page.text and "quantize=q4 kv=bf16" in page.text


def test_a_reference_that_fails_is_an_error(load: Callable[[EngineSetting], LoadedModel]) -> None:
    with pytest.raises(UnsupportedError, match="fp8 pages"):
        run_sweep(load, "kv=fp8,fp16")


def test_weights_that_cannot_be_are_a_line(load: Callable[[EngineSetting], LoadedModel]) -> None:
    rows, result = run_sweep(load, "quantize=none,fp8")
    assert rows[1].error is not None and "fp8 weights need" in rows[1].error
    assert "fp8 weights need" in sweep_table(result)


def test_an_interrupted_sweep_keeps_what_it_has(load: Callable[[EngineSetting], LoadedModel]) -> None:
    sweep = Sweep(Perplexity(TaskOptions(context=64)), [TEXT], TEXT, load, options=SMALL)
    settings = cross_product(EngineSetting({}), ["kv=fp32,bf16"])
    rows = []

    def begin(setting: EngineSetting) -> Callable[[int, int], None]:
        def step(done: int, total: int) -> None:
            if rows and done:
                raise KeyboardInterrupt

        return step

    with pytest.raises(KeyboardInterrupt):
        for row in sweep.run(settings, begin):
            rows.append(row)
    assert [row.label for row in rows] == ["kv=fp32"]
    assert "interrupted: 1 of 2 settings" in sweep_table(sweep_result("m", "d", sweep, rows, {}, 2))
