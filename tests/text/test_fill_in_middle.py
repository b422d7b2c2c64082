"""Which tokens fill in the middle: by a GGUF file's metadata, by the vocabulary, or none."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Engine, SamplingParams
from antiphon.runtime.loading.model_text import ModelText
from antiphon.text.fill_in_middle import FillInMiddle, fill_in_middle
from antiphon.text.tokenization.hf_vocab import FileTokenizer
from support.models.tiny_model import tiny_tokenizer


def tokenizer(*more: str) -> FileTokenizer:
    made = tiny_tokenizer()
    made.add_special_tokens(list(more))
    return FileTokenizer(made, {"eos_token": "<|im_end|>"})


@pytest.mark.parametrize("spelling", ["<|fim_{}|>", "<fim_{}>", "<fim-{}>"])
def test_by_the_vocabulary(spelling: str) -> None:
    names = [spelling.format(name) for name in ("prefix", "suffix", "middle", "pad")]
    found = fill_in_middle(tokenizer(*names), {})
    assert found == FillInMiddle(264, 265, 266, frozenset({264, 265, 266, 267}))
    assert found.prompt([1, 2], [3]) == [264, 1, 2, 265, 3, 266]
    assert found.prompt([], [3], bos_id=7) == [7, 264, 265, 3, 266]


def test_by_metadata_before_the_vocabulary() -> None:
    keys = ("pre", "suf", "mid", "sep")
    metadata: dict[str, Any] = {
        f"tokenizer.ggml.fim_{key}_token_id": token for key, token in zip(keys, (5, 6, 7, 8), strict=True)
    }
    names = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    found = fill_in_middle(tokenizer(*names), metadata)
    assert found == FillInMiddle(5, 6, 7, frozenset({5, 6, 7, 8}))
    for wrong in (-1, 10**6, "5", None):
        changed = {**metadata, "tokenizer.ggml.fim_pre_token_id": wrong}
        by_name = fill_in_middle(tokenizer(*names), changed)
        assert by_name is not None and by_name.prefix == 264


def test_a_model_without_such_tokens() -> None:
    assert fill_in_middle(tokenizer(), {}) is None
    assert fill_in_middle(tokenizer("<|fim_prefix|>", "<|fim_suffix|>"), {}) is None


@pytest.mark.weights
@pytest.mark.slow
def test_a_model_of_code_fills_in_an_expression() -> None:
    text = ModelText.load("qwen2.5-coder-0.5b")
    middle = text.fill_in_middle
    assert middle is not None and text.tokenizer.token_bytes(middle.prefix) == b"<|fim_prefix|>"
    before = text.tokenizer.encode("def add(first, second):\n    return ", add_special_tokens=False)
    after = text.tokenizer.encode("\n\n\nprint(add(1, 2))\n", add_special_tokens=False)
    with Engine("qwen2.5-coder-0.5b", kv_bytes=64 << 20) as engine:
        params = SamplingParams(max_tokens=16, stop_tokens=middle.ends)
        (answer,) = engine.generate([middle.prompt(before, after)], params)
    assert answer.text.splitlines()[0].strip() == "first + second"
