"""Compare a real model's greedy answers on the device with the reference in fp32: differing tokens, and how far off.

Two greedy answers are comparable up to their first differing token, which decides the check. The reference reads the
device's answers, so the tokens after it are compared and reported too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from antiphon import ops
from antiphon.engine.sampling_params import SamplingParams
from antiphon.executor.device.trial_rows import TrialRows
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops.reference.weights import pack_dense
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import load_resolved
from antiphon.runtime.text.output import Completion
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.open import open_checkpoint
from checks.outcome import Outcome, Subject

NAME = "greedy tokens of a real model"
OUTPUT_TOKENS, TOP = 64, 3
PROMPTS = (
    "The capital of France is", "Once upon a time there was a", "In 1969, the first humans", "def fibonacci(n):\n",
    "Water boils at", "The three primary colours are", "To make a good cup of tea, first", "Dear Sir or Madam,",
    "The quick brown fox", "Photosynthesis is the process by which", "My favourite book is", "SELECT name FROM",
    "The mitochondrion is", "Yesterday I went to the market and bought", "E = mc^2 means that", "1, 2, 3, 4, 5,",
    "The largest planet of the solar system", "If it rains tomorrow,", "Shakespeare wrote", "A haiku about the sea:\n",
)  # fmt: skip


@dataclass
class Comparison:
    """Counts of differing tokens and answers.

    A difference is far if one side's token is not among the other side's TOP most likely tokens.
    """

    tokens: int = 0
    different: int = 0
    far: int = 0
    answers: int = 0  # answers with a differing token
    far_answers: int = 0  # answers whose first differing token is far

    def add(self, tokens: list[int], own_top: list[list[int]], expected: Tensor) -> None:
        """Count an answer's differences.

        `own_top` has the device's most likely tokens per position, `expected` the reference's logits [positions,
        vocabulary].
        """
        is_first = True
        for token, own, likeliest in zip(tokens, own_top, expected.topk(TOP).indices.tolist(), strict=True):
            self.tokens += 1
            if token == likeliest[0]:
                continue
            is_far = token not in likeliest or likeliest[0] not in own
            self.different += 1
            self.far += is_far
            self.answers += is_first
            self.far_answers += is_first and is_far
            is_first = False


def check(subject: Subject) -> Iterator[Outcome]:
    if subject.model is None:
        yield Outcome(NAME, None, "give --model")
        return
    resolved = resolve(subject.model)
    loaded = load_resolved(resolved, device=subject.device)
    prompts = [loaded.tokenizer.encode(text) for text in PROMPTS]
    config = EngineConfig(device=subject.device.name, prefix_caching=False, max_running=len(PROMPTS))
    with Engine(loaded, config=config) as engine:
        plain = engine.generate(prompts, _params())
        answers = engine.generate(prompts, _params(TOP))
    decoder = _oracle(resolved.path)
    found = Comparison()
    for prompt, answer in zip(prompts, answers, strict=True):
        _compare(found, prompt, answer, decoder)
    same = sum(one.token_ids == other.token_ids for one, other in zip(plain, answers, strict=True))
    yield Outcome(
        NAME,
        found.far_answers == 0 and found.tokens == len(PROMPTS) * OUTPUT_TOKENS,
        f"{found.answers} of {len(answers)} answers differ from the reference's, {found.far_answers} by a token that "
        f"is not in the other's top {TOP}; of all {found.tokens} tokens {found.different} differ, {found.far} so; "
        f"{same} answers are the same without log-probabilities",
    )


def _params(logprobs: int | None = None) -> SamplingParams:
    return SamplingParams(max_tokens=OUTPUT_TOKENS, ignore_eos=True, logprobs=logprobs)


def _oracle(path: Path) -> TokenDecoder:
    """Build the model for the reference backend on the CPU, with its weights decoded to fp32."""
    model = build_model(open_checkpoint(path))
    with ops.use_backend("reference"):
        for node in model.modules():
            node.prepare()
        for weight in model.weights():
            pack_dense(weight, dtype=torch.float32)
    decoder = model.part(TokenDecoder)
    assert decoder is not None
    return decoder


def _compare(found: Comparison, prompt: list[int], answer: Completion, decoder: TokenDecoder) -> None:
    assert answer.top_logprobs is not None
    tokens = torch.tensor([[*prompt, *answer.token_ids]])
    with ops.use_backend("reference"), torch.inference_mode():
        requests = TrialRows(decoder, 1, tokens.shape[1], torch.float32, torch.device("cpu"))
        logits = decoder.forward(requests.batch(tokens), requests.cache)
    places = slice(len(prompt) - 1, -1)
    found.add(answer.token_ids, [[token for token, _ in top] for top in answer.top_logprobs], logits[places])
