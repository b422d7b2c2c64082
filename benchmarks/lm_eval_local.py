"""Run a local task with lm-eval's `local-completions`, beside the same weights under transformers or in process.

    python benchmarks/lm_eval_local.py [--model smollm2-135m] [--items 200] [--beside transformers|engine] --text FILE

The task is made from a text: choose the true one of four continuations. The `lm-eval` package runs it twice: against
`antiphon serve` over HTTP (prompts echoed with their log-probabilities), and beside it

- with transformers on the weights of the same GGUF file, dequantised to fp32; exits with 1 if the accuracies differ by
more than a point;
- or with the embedded engine; exits with 1 unless every log-likelihood of every item is equal.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

CONTEXT_WORDS = 12
ENDING_WORDS = 4
WORD = re.compile(r"[A-Za-z'-]+[,.;]?")
CHOICES = 4
MAX_POINTS_APART = 1.0


def make_items(text: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return passages of the text, without markup, each with four endings of which one is the true one."""
    source = random.Random(seed)
    words = [word for word in text.split() if WORD.fullmatch(word)]
    size = CONTEXT_WORDS + ENDING_WORDS
    starts = source.sample(range(0, len(words) - size, size), count)
    endings = [" ".join(words[start + CONTEXT_WORDS : start + size]) for start in starts]
    items = []
    for index, start in enumerate(starts):
        others = source.sample([ending for ending in endings if ending != endings[index]], CHOICES - 1)
        choices = [endings[index], *others]
        source.shuffle(choices)
        query = " ".join(words[start : start + CONTEXT_WORDS])
        items.append({"query": query, "choices": choices, "gold": choices.index(endings[index])})
    return items


def task_of(folder: Path, items: list[dict[str, Any]]) -> dict[str, Any]:
    path = folder / "items.jsonl"
    path.write_text("\n".join(json.dumps(item) for item in items), encoding="utf-8")
    return {
        "task": "endings",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(path)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{query}}",
        "doc_to_choice": "choices",
        "doc_to_target": "gold",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }


@dataclass(frozen=True)
class Result:
    """Accuracies in percent, log-likelihoods of the endings by item, and seconds taken."""

    accuracies: dict[str, float]
    answers: dict[int, Any]
    seconds: float


def evaluate(model: Any, task: dict[str, Any], **options: Any) -> Result:
    from lm_eval import simple_evaluate

    started = time.monotonic()
    found = simple_evaluate(model=model, tasks=[dict(task)], bootstrap_iters=0, log_samples=True, **options)
    results = found["results"]["endings"]
    answers = {sample["doc_id"]: sample["filtered_resps"] for sample in found["samples"]["endings"]}
    accuracies = {name: 100 * results[f"{name},none"] for name in ("acc", "acc_norm")}
    return Result(accuracies, answers, time.monotonic() - started)


def engine_model(engine: Any, tokenizer: Any) -> Any:
    """Wrap the embedded engine as a model of lm-eval that encodes prompts as `local-completions` does."""
    from lm_eval.api.model import TemplateLM

    from antiphon import SamplingParams

    class EngineModel(TemplateLM):
        @property
        def eot_token_id(self) -> int:
            return int(tokenizer.eos_token_id)

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
            return list(tokenizer.encode(string, add_special_tokens=bool(add_special_tokens)))

        def _loglikelihood_tokens(self, requests: Any, **_: Any) -> list[tuple[float, bool]]:
            prompts = [[*context, *ending] for _, context, ending in requests]
            params = SamplingParams(max_tokens=1, logprobs=1, prompt_logprobs=True)
            scored = []
            for (_, context, _), answer in zip(requests, engine.generate(prompts, params), strict=True):
                first = len(context) - 1  # a prompt's first token has no log-probability
                own, tops = answer.prompt_logprobs[first:], answer.prompt_top_logprobs[first:]
                is_greedy = all(value == top[0][1] for value, top in zip(own, tops, strict=True))
                scored.append((sum(own), is_greedy))
            return scored

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            raise NotImplementedError

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            raise NotImplementedError

    return EngineModel()


@contextmanager
def served(model: str) -> Iterator[str]:
    """Yield the address of a server that is ready."""
    import httpx

    code = "from antiphon.cli.app import main; main()"
    command = [sys.executable, "-c", code, "serve", model, "--port", "0", "--no-log-requests"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            url = next(found[0] for line in process.stdout if (found := re.search(r"http://[\d.]+:\d+", line)))
            while httpx.get(f"{url}/readyz").status_code != 200:
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.communicate(timeout=30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", help="A catalog model in a GGUF file.")
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--text", type=Path, required=True, help="A text of some tens of thousands of words.")
    parser.add_argument("--beside", choices=("transformers", "engine"), default="transformers")
    parser.add_argument("--concurrent", type=int, default=16)
    options = parser.parse_args()

    from transformers import AutoTokenizer

    from antiphon.weights.catalog.resolve import resolve

    path = resolve(options.model).path
    gguf = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(**gguf)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder / "tokenizer")
        task = task_of(folder, make_items(options.text.read_text(encoding="utf-8", errors="replace"), options.items))
        with served(options.model) as url:
            arguments = completions_arguments(options.model, url, folder / "tokenizer", options.concurrent)
            ours = evaluate("local-completions", task, model_args=arguments)
        if options.beside == "engine":
            from antiphon import Engine

            with Engine(options.model) as engine:
                theirs = evaluate(engine_model(engine, tokenizer), task)
        else:
            theirs = with_transformers(gguf, tokenizer, task)
    print(f"{options.items} items, {CHOICES} endings each, {options.model}")
    print(f"{'':24}{'acc':>8}{'acc_norm':>10}{'seconds':>9}")
    for name, result in (("antiphon serve", ours), (options.beside, theirs)):
        accuracies = result.accuracies
        print(f"{name:24}{accuracies['acc']:8.2f}{accuracies['acc_norm']:10.2f}{result.seconds:9.0f}")
    if options.beside == "engine":
        different = [item for item in ours.answers if ours.answers[item] != theirs.answers[item]]
        print(f"{len(ours.answers) - len(different)} of {options.items} items have the same log-likelihoods")
        return int(bool(different) or len(ours.answers) != options.items)
    apart = max(abs(ours.accuracies[name] - theirs.accuracies[name]) for name in ours.accuracies)
    print(f"{apart:.2f} points apart; {MAX_POINTS_APART:g} allowed")
    return int(apart > MAX_POINTS_APART)


def completions_arguments(model: str, url: str, tokenizer: Path, concurrent: int) -> dict[str, Any]:
    """Return the arguments with which `local-completions` reaches a server."""
    return {
        "model": model,
        "base_url": f"{url}/v1/completions",
        "tokenizer_backend": "huggingface",
        "tokenizer": str(tokenizer),
        "num_concurrent": concurrent,
        "max_retries": 1,
    }


def with_transformers(gguf: dict[str, str], tokenizer: Any, task: dict[str, Any]) -> Result:
    import torch
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(**gguf, dtype=torch.float32).eval()
    return evaluate(HFLM(pretrained=reference, tokenizer=tokenizer, batch_size=8, device="cpu"), task)


if __name__ == "__main__":
    sys.exit(main())
