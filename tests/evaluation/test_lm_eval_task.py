"""lm-eval's tasks: item by item what lm-eval's own model of transformers gives on the same checkpoint."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon.errors import InvalidRequestError, MissingDependencyError
from antiphon.evaluation.results import figures
from antiphon.evaluation.run import TaskRun, run_task
from antiphon.evaluation.settings import EngineSetting, opened
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.tasks.registry import make_task, task_class
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.loading.weight_forms import WeightOptions
from support.models.tiny_model import CONFIG, write_folder

pytestmark = pytest.mark.slow

CONTEXT = 96
TEXTS = [
    "hello there, the bells ring twice a day in the old tower by the river, ",
    "a tall ship left the harbour at noon; nobody saw it again, ",
    "ünïcode — and other hell on earth, said the teller of tales, ",
]


def items() -> list[dict[str, Any]]:
    """Questions with four endings, some without a context, one with a context that ends in a space."""
    found = []
    for number in range(12):
        query = "" if number == 3 else TEXTS[number % 3][number : number + 30] + (" " if number == 5 else "")
        choices = [f" the {word} {number}" for word in ("bell", "ship", "tower by the river", "hello")]
        found.append({"query": query, "choices": choices, "gold": number % 4, "long": TEXTS[number % 3] * (number + 1)})
    return found


def write_tasks(folder: Path) -> Path:
    """A task of each kind of request, and a group of two of them."""
    data = folder / "items.jsonl"
    data.write_text("\n".join(json.dumps(item) for item in items()), encoding="utf-8")
    shared = f"dataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {data}\ntest_split: test\n"
    (folder / "endings.yaml").write_text(
        "task: endings\n" + shared + "output_type: multiple_choice\ndoc_to_text: '{{query}}'\ndoc_to_choice: choices\n"
        "doc_to_target: gold\ntarget_delimiter: ''\nmetric_list:\n  - metric: acc\n  - metric: acc_norm\n"
    )
    (folder / "texts.yaml").write_text(
        "task: texts\n" + shared + "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{long}}'\n"
        "metric_list:\n  - metric: word_perplexity\n  - metric: byte_perplexity\n  - metric: bits_per_byte\n"
    )
    (folder / "answers.yaml").write_text(
        "task: answers\n" + shared + "output_type: generate_until\ndoc_to_text: '{{long}}'\ndoc_to_target: 'x'\n"
        "generation_kwargs:\n  until: ['~g', 'EE']\n  max_gen_toks: 24\n  do_sample: false\n"
        "metric_list:\n  - metric: exact_match\n    aggregation: mean\n    higher_is_better: true\n"
    )
    (folder / "translations.yaml").write_text(
        "task: translations\n" + shared + "output_type: generate_until\ndoc_to_text: '{{query}}'\ndoc_to_target: 'x'\n"
        "metric_list:\n  - metric: bleu\n"
    )
    (folder / "both.yaml").write_text("group: both\ntask:\n  - endings\n  - texts\n")
    return folder


@pytest.fixture(scope="module", autouse=True)
def no_description_of_the_machine() -> Iterator[None]:
    """Keep lm-eval from adding a description of the machine to each result, which takes it seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = {**CONFIG, "max_position_embeddings": CONTEXT}
    return write_folder(tmp_path_factory.mktemp("models") / "short-llama", config=config)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def subject(model: Path) -> Iterator[Subject]:
    loaded = load_model(str(model), options=WeightOptions(repack=False), device="cpu")
    with opened(loaded, EngineSetting({"kv": "fp32", "repack": "off"}), kv_bytes=16 << 20) as subject:
        yield subject


@pytest.fixture(scope="module")
def theirs(model: Path) -> Any:
    """lm-eval's own model. It has as many positions for tokens as ours leaves for prompts."""
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"), eos_token="<|im_end|>")
    reference = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    return HFLM(pretrained=reference, tokenizer=tokenizer, batch_size=1, device="cpu", max_length=CONTEXT - 2)


def reference(theirs: Any, tasks: Path, name: str) -> tuple[dict[str, float], list[dict[str, Any]]]:
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = simple_evaluate(model=theirs, tasks=[name], task_manager=manager, bootstrap_iters=0, log_samples=True)
    return found["results"][name], sorted(found["samples"][name], key=lambda sample: sample["doc_id"])


def ours(subject: Subject, tasks: Path, name: str, limit: int | None = None) -> tuple[dict[str, float], TaskRun]:
    task = make_task(f"lm-eval:{name}")
    run = run_task(task, subject, task.read(tasks), limit)
    return {figure.metric.name: figure.value for figure in figures(task.metrics, run.items)}, run


def test_multiple_choice(subject: Subject, theirs: Any, tasks: Path) -> None:
    expected, samples = reference(theirs, tasks, "endings")
    found, run = ours(subject, tasks, "endings")
    assert [item.id for item in run.items] == [str(number) for number in range(12)]
    for item, sample in zip(run.items, samples, strict=True):
        wanted = [logprob for logprob, _ in sample["filtered_resps"]]
        got = item.values["logprobs"]
        assert got == pytest.approx(wanted, abs=1e-3)
        assert (item.values["acc"], item.values["acc_norm"]) == (sample["acc"], sample["acc_norm"])
    assert 0 < found["acc"] < 1
    assert found == pytest.approx({"acc": expected["acc,none"], "acc_norm": expected["acc_norm,none"]}, abs=1e-12)


def test_whole_texts(subject: Subject, theirs: Any, tasks: Path) -> None:
    """Most of them are longer than the model's context."""
    expected, samples = reference(theirs, tasks, "texts")
    found, run = ours(subject, tasks, "texts")
    names = ("word_perplexity", "byte_perplexity", "bits_per_byte")
    assert set(found) == set(names)
    for item, sample in zip(run.items, samples, strict=True):
        for name in names:
            got, wanted = item.values[name], sample[name]
            assert isinstance(got, list) and got[1] == wanted[1]
            assert got[0] == pytest.approx(wanted[0], rel=1e-5, abs=1e-3)
    for name in names:
        assert found[name] == pytest.approx(expected[f"{name},none"], rel=1e-4)


def test_answers(subject: Subject, theirs: Any, tasks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most prompts are cut from the left, to leave room for the answer in the whole context."""
    monkeypatch.setattr(theirs, "_max_length", CONTEXT)
    _, samples = reference(theirs, tasks, "answers")
    found, run = ours(subject, tasks, "answers")
    outputs = [sample["filtered_resps"][0] for sample in samples]
    assert [item.output for item in run.items] == outputs
    assert len({len(text) for text in outputs}) > 1, "no stop string was met"
    assert found == {"exact_match": 0.0}


def test_greedy_endings(subject: Subject, theirs: Any) -> None:
    """Whether an ending is what greedy decoding gives: one that is, and one that is not."""
    from lm_eval.api.instance import Instance

    from antiphon.evaluation.lm_eval_adapter import EngineLM

    context = TEXTS[0][:39]
    greedy = EngineLM(subject).generate_until([Instance("generate_until", {}, (context, {"max_gen_toks": 3}), 0)])[0]
    requests = [Instance("loglikelihood", {}, (context, ending), 0) for ending in (greedy, " the bell")]
    assert [flag for _, flag in EngineLM(subject).loglikelihood(requests)] == [True, False]
    wanted = theirs.loglikelihood(requests)
    assert [flag for _, flag in wanted] == [True, False]


def test_a_limit_takes_the_first_items_and_a_task_can_run_again(subject: Subject, tasks: Path) -> None:
    task = make_task("lm-eval:endings")
    work = task.read(tasks)
    first, second = (run_task(task, subject, work, 5) for _ in range(2))
    assert [item.id for item in first.items] == ["0", "1", "2", "3", "4"]
    assert first.items == second.items


def test_options_of_a_generation() -> None:
    from antiphon.evaluation.lm_eval_adapter import sampling_params

    greedy = sampling_params({"until": ["\n", ""], "max_gen_toks": 7, "do_sample": False, "temperature": 0.7}, 3)
    assert (greedy.temperature, greedy.stop, greedy.max_tokens, greedy.seed) == (0.0, ("\n",), 7, 0)
    drawn = sampling_params({"until": "x", "do_sample": True, "temperature": 0.5, "top_p": 0.9, "top_k": 4}, 3)
    assert (drawn.temperature, drawn.top_p, drawn.top_k, drawn.seed, drawn.stop) == (0.5, 0.9, 4, 3, ("x",))
    with pytest.raises(InvalidRequestError, match=r"does not have: \['num_beams'\]"):
        sampling_params({"num_beams": 4})


def test_answers_that_do_not_fit(subject: Subject) -> None:
    from lm_eval.api.instance import Instance

    from antiphon.evaluation.lm_eval_adapter import EngineLM

    with pytest.raises(InvalidRequestError, match="up to 500 tokens; model 'short-llama' takes 96"):
        EngineLM(subject).generate_until([Instance("generate_until", {}, ("a", {"max_gen_toks": 500}), 0)])
    with pytest.raises(InvalidRequestError, match="tokens; model 'short-llama' can score 1 to 94"):
        EngineLM(subject).loglikelihood([Instance("loglikelihood", {}, ("a", "b" * 200), 0)])


def test_what_cannot_be_run(tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, message in (
        ("nothing", "has no task 'nothing'; there are: answers, both, endings, texts, translations"),
        ("both", r"'both' is a group of 2 tasks \(endings, texts\); name one of them"),
        ("translations", r"metrics of 'translations' from texts \(bleu\)"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            make_task(f"lm-eval:{name}").read(tasks)
    with pytest.raises(InvalidRequestError, match="is not a folder"):
        make_task("lm-eval:endings").read(tasks / "endings.yaml")
    (tmp_path / "broken.yaml").write_text(
        "task: broken\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: /no/such/file.jsonl\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: a\ndoc_to_choice: b\ndoc_to_target: c\n"
    )
    with pytest.raises(InvalidRequestError, match="lm-eval cannot load the task 'broken'"):
        make_task("lm-eval:broken").read(tmp_path)
    with pytest.raises(InvalidRequestError, match="needs the name of a task"):
        make_task("lm-eval:")
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(MissingDependencyError, match=r"needs lm-eval.*`pip install lm-eval`"):
        make_task("lm-eval:endings")


def test_it_is_listed_among_the_tasks() -> None:
    assert task_class("lm-eval:anything").summary.startswith("a task of the lm-eval package")
