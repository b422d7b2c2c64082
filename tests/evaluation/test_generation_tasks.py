"""Figures over generated answers equal those of the packages that define them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import ContextLengthError, MissingDependencyError
from antiphon.evaluation.run import run_task
from antiphon.evaluation.settings import EngineSetting, opened
from antiphon.evaluation.task import ItemResult, TaskOptions
from antiphon.evaluation.tasks.generation import Accuracy, Generation, Prompted, Summarise, Translate
from antiphon.runtime.loading.loading import load_model

OUTPUTS = ["the cat sat on a mat", "a dog barked at the postman", "it rains"]
REFERENCES = [["the cat sat on the mat"], ["the dog barked at a postman", "a dog barks"], ["it is raining today"]]


def results(task: Generation) -> list[ItemResult]:
    pairs = zip(OUTPUTS, REFERENCES, strict=True)
    return [ItemResult(str(index), task.score(*pair)) for index, pair in enumerate(pairs)]


def value(task: Generation, name: str) -> float:
    (metric,) = (metric for metric in task.metrics if metric.name == name)
    return metric.statistic(metric.rows(results(task)))


def test_bleu_and_chrf_are_those_of_the_whole() -> None:
    import sacrebleu

    streams: list[list[str | None]] = [
        [own[index] if index < len(own) else None for own in REFERENCES] for index in (0, 1)
    ]
    task = Translate()
    assert value(task, "BLEU") == pytest.approx(sacrebleu.corpus_bleu(OUTPUTS, streams).score)  # type: ignore[arg-type]
    assert value(task, "chrF") == pytest.approx(sacrebleu.corpus_chrf(OUTPUTS, streams).score)  # type: ignore[arg-type]


def test_rouge_is_the_mean_of_the_best_references() -> None:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    found = [scorer.score_multi(own, text) for text, own in zip(OUTPUTS, REFERENCES, strict=True)]
    for kind, name in (("rouge1", "ROUGE-1"), ("rouge2", "ROUGE-2"), ("rougeL", "ROUGE-L")):
        assert value(Summarise(), name) == pytest.approx(sum(one[kind].fmeasure for one in found) / 3)


def test_answers_are_normalised() -> None:
    score = Accuracy().score
    assert score("The Eiffel Tower!", ["eiffel tower"]) == {"exact_match": 1.0, "f1": 1.0}
    assert score("Eiffel", ["the Eiffel tower", "Paris"])["f1"] == pytest.approx(2 / 3)


def test_a_missing_package_is_an_error_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(MissingDependencyError, match="pip install sacrebleu"):
        Translate()


@pytest.mark.parametrize("raw", [False, True])
def test_answers_are_those_of_the_engine(tiny_llama: Path, raw: bool) -> None:
    """Greedy, with the chat template unless the prompts are raw, and of the length that was asked for."""
    loaded = load_model(str(tiny_llama), device="cpu")
    items = [Prompted("1", "hello", ["x"]), Prompted("2", "the bells", ["y"])]
    with opened(loaded, EngineSetting({}), kv_bytes=16 << 20) as subject:
        run = run_task(Accuracy(TaskOptions(max_tokens=6, raw=raw)), subject, items)
        prompts: list[Any] = [item.prompt if raw else [{"role": "user", "content": item.prompt}] for item in items]
        answers = subject.engine.generate(prompts, SamplingParams(max_tokens=6))
    assert [item.output for item in run.items] == [answer.text.strip() for answer in answers]
    assert run.items[0].output != run.items[1].output


def test_a_prompt_that_is_too_long_is_named(tiny_llama: Path, tmp_path: Path) -> None:
    data = tmp_path / "items.jsonl"
    data.write_text('{"prompt": "hello", "reference": "x"}\n{"prompt": "%s", "reference": "x"}\n' % ("word " * 5000))
    task = Accuracy(TaskOptions(max_tokens=2))
    with opened(load_model(str(tiny_llama), device="cpu"), EngineSetting({}), kv_bytes=16 << 20) as subject:
        with pytest.raises(ContextLengthError, match=r"items\.jsonl:2: prompt has [\d,]+ tokens"):
            run_task(task, subject, task.read(data))
        assert subject.engine.generate("hello", SamplingParams(max_tokens=1))  # nothing is left waiting
