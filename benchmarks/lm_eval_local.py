"""lm-eval's `local-completions` on a local task, beside the same weights under transformers.

    python benchmarks/lm_eval_local.py [--model smollm2-135m] [--items 200] [--text FILE]

The task is made from a text: which of four continuations is the true one. It is run twice by the `lm-eval` package:
against `antiphon serve` over HTTP (prompts echoed with their log-probabilities), and with transformers on the weights
of the same GGUF file, dequantised to fp32. Prints both accuracies; exits with 1 if they are more than a point apart.
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
    """Passages of the text, its markup left out, with four endings, of which one follows."""
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


def evaluate(model: Any, task: dict[str, Any], **options: Any) -> dict[str, float]:
    from lm_eval import simple_evaluate

    results = simple_evaluate(model=model, tasks=[dict(task)], bootstrap_iters=0, **options)["results"]["endings"]
    return {name: 100 * results[f"{name},none"] for name in ("acc", "acc_norm")}


@contextmanager
def served(model: str) -> Iterator[str]:
    """The address of a server that is ready."""
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
    parser.add_argument("--concurrent", type=int, default=16)
    options = parser.parse_args()

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from antiphon.weights.catalog.resolve import resolve

    path = resolve(options.model).path
    gguf = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(**gguf)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder / "tokenizer")
        task = task_of(folder, make_items(options.text.read_text(encoding="utf-8", errors="replace"), options.items))
        started = time.monotonic()
        with served(options.model) as url:
            arguments = {
                "model": options.model,
                "base_url": f"{url}/v1/completions",
                "tokenizer_backend": "huggingface",
                "tokenizer": str(folder / "tokenizer"),
                "num_concurrent": options.concurrent,
                "max_retries": 1,
            }
            ours = evaluate("local-completions", task, model_args=arguments)
        ours_seconds = time.monotonic() - started

        from lm_eval.models.huggingface import HFLM

        started = time.monotonic()
        reference = AutoModelForCausalLM.from_pretrained(**gguf, dtype=torch.float32).eval()
        theirs = evaluate(HFLM(pretrained=reference, tokenizer=tokenizer, batch_size=8, device="cpu"), task)
        theirs_seconds = time.monotonic() - started
    print(f"{options.items} items, {CHOICES} endings each, {options.model}")
    print(f"{'':24}{'acc':>8}{'acc_norm':>10}{'seconds':>9}")
    print(f"{'antiphon serve':24}{ours['acc']:8.2f}{ours['acc_norm']:10.2f}{ours_seconds:9.0f}")
    print(f"{'transformers, fp32':24}{theirs['acc']:8.2f}{theirs['acc_norm']:10.2f}{theirs_seconds:9.0f}")
    apart = max(abs(ours[name] - theirs[name]) for name in ours)
    print(f"{apart:.2f} points apart; {MAX_POINTS_APART:g} allowed")
    return int(apart > MAX_POINTS_APART)


if __name__ == "__main__":
    sys.exit(main())
