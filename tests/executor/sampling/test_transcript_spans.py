"""Timestamp rules equal OpenAI's own logit filters on random logits and histories."""

from __future__ import annotations

import random

import pytest
import torch

from antiphon import ops
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.transcript_rules import TranscriptRules
from antiphon.executor.sampling.edit_batch import EditBatch

pytestmark = pytest.mark.slow

tokenizer = pytest.importorskip("whisper.tokenizer", reason="make test-all installs openai-whisper")
decoding = pytest.importorskip("whisper.decoding", reason="make test-all installs openai-whisper")

TOKENIZER = tokenizer.get_tokenizer(False)
FIRST, END = TOKENIZER.timestamp_begin, TOKENIZER.eot
SIZE = FIRST + 1501
BEGIN = 3
RULES = TranscriptRules(
    begin=BEGIN, end_id=END, blank=frozenset({*TOKENIZER.encode(" "), END}), first_timestamp=FIRST, max_initial=50
)


def history(source: random.Random) -> list[int]:
    """A transcript that the rules allow, cut anywhere."""
    tokens, moment = [FIRST + source.randint(0, 50)], 0
    moment = tokens[0] - FIRST
    for _ in range(source.randint(0, 3)):
        tokens += [source.randrange(1000) for _ in range(source.randint(1, 4))]
        moment = min(1500, moment + source.randint(1, 300))
        tokens.append(FIRST + moment)
        if source.random() < 0.8:
            tokens.append(FIRST + moment)
    return tokens[: source.randint(0, len(tokens))]


def edit(logits: torch.Tensor, rules: TranscriptRules, tokens: list[int], num_prompt_tokens: int) -> None:
    request = Request("r", "m", tokens[:num_prompt_tokens], SamplingParams(), rules=rules)
    request.tokens, request.row = tokens, 0
    edits = EditBatch(logits.shape[1], torch.device("cpu"))
    edits.set_up(request)
    ops.edit_logits(logits, edits.build([0], [None])[0])


def test_random_histories() -> None:
    source = random.Random(0)
    generator = torch.Generator().manual_seed(0)
    prompt = [TOKENIZER.sot_prev, 11, TOKENIZER.sot]
    blank, rules = decoding.SuppressBlank(TOKENIZER, BEGIN), decoding.ApplyTimestampRules(TOKENIZER, BEGIN, 50)
    for _ in range(150):
        tokens = [*prompt, *history(source)]
        logits = torch.randn(1, SIZE, generator=generator) * 3
        logits[:, FIRST:] += source.choice([-8.0, -2.0, 0.0, 2.0])
        expected, got = logits.clone(), logits.clone()
        blank.apply(expected, torch.tensor([tokens]))
        rules.apply(expected, torch.tensor([tokens]))
        edit(got, RULES, tokens, len(prompt))
        # Of what OpenAI's rules rule out by name, the token for "no timestamps" is banned from the start.
        expected[0, FIRST - 1] = got[0, FIRST - 1] = -torch.inf
        assert torch.equal(got, expected), tokens


def test_opening() -> None:
    rules = TranscriptRules(begin=3, end_id=END, opening=((5, 9), (7,)))
    for tokens, allowed in (([0], [5, 9]), ([0, 5], [7])):
        logits = torch.arange(12.0)[None]
        edit(logits, rules, tokens, 1)
        assert logits[0].isfinite().nonzero().flatten().tolist() == allowed
    logits = torch.arange(12.0)[None]
    edit(logits, rules, [0, 5, 7], 1)
    assert logits.isfinite().all()
