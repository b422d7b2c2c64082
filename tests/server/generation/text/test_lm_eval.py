"""lm-eval through `/v1/completions` gives the very numbers that the embedded engine gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon import Engine
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import running_server
from support.source.scripts import script
from support.text.enwik8 import enwik8_text

MODEL = "smollm2-135m"


@pytest.mark.parametrize(
    "count", [pytest.param(4, marks=[pytest.mark.slow, pytest.mark.weights]), pytest.param(200, marks=pytest.mark.soak)]
)
def test_items_have_the_log_likelihoods_of_the_embedded_engine(
    count: int, model_path: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four endings each. What it scores is (log-likelihood, whether the ending is the greedy one)."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from transformers import AutoTokenizer

    benchmark = script("benchmarks/lm_eval_local.py")
    path = model_path(MODEL)
    tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    tokenizer.save_pretrained(tmp_path)
    items = benchmark.make_items(enwik8_text(), count)
    pairs = [(item["query"], " " + choice) for item in items for choice in item["choices"]]

    def requests() -> list[Any]:
        return [Instance("loglikelihood", {}, pair, index) for index, pair in enumerate(pairs)]

    config = ServerConfig(models=(ModelSpec.of(MODEL),), offline=True)
    with running_server(config, {"kv_bytes": 64 << 20}) as server:
        arguments = benchmark.completions_arguments(MODEL, server.url, tmp_path, concurrent=8)
        served = LocalCompletionsAPI(**arguments).loglikelihood(requests(), disable_tqdm=True)
    with Engine(MODEL, kv_bytes=64 << 20) as engine:
        embedded = benchmark.engine_model(engine, tokenizer).loglikelihood(requests(), disable_tqdm=True)
    assert len(served) == len(pairs) and all(score < 0 for score, _ in served)
    assert served == embedded
