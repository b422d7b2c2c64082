"""Timestamp rules equal OpenAI's own logit filters on random logits and histories."""

from __future__ import annotations

import random

import torch
import whisper.tokenizer
from whisper.decoding import ApplyTimestampRules, SuppressBlank

from antiphon.engine.transcript_rules import TranscriptRules
from antiphon.executor.sampling.transcript_edits import TranscriptEdits

TOKENIZER = whisper.tokenizer.get_tokenizer(False)
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


def test_random_histories() -> None:
    source = random.Random(0)
    generator = torch.Generator().manual_seed(0)
    prompt = [TOKENIZER.sot_prev, 11, TOKENIZER.sot]
    blank, rules = SuppressBlank(TOKENIZER, BEGIN), ApplyTimestampRules(TOKENIZER, BEGIN, 50)
    edits = TranscriptEdits(RULES)
    for _ in range(150):
        tokens = [*prompt, *history(source)]
        logits = torch.randn(1, SIZE, generator=generator) * 3
        logits[:, FIRST:] += source.choice([-8.0, -2.0, 0.0, 2.0])
        expected, got = logits.clone(), logits[0].clone()
        blank.apply(expected, torch.tensor([tokens]))
        rules.apply(expected, torch.tensor([tokens]))
        edits.apply(got, tokens)
        # Of what OpenAI's rules rule out by name, the token for "no timestamps" is banned from the start.
        expected[0, FIRST - 1] = got[FIRST - 1] = -torch.inf
        assert torch.equal(got, expected[0]), tokens


def test_opening() -> None:
    edits = TranscriptEdits(TranscriptRules(begin=3, end_id=END, opening=((5, 9), (7,))))
    logits = torch.arange(12.0)
    assert edits.open(logits, 0)
    assert logits.argmax() == 9 and torch.isinf(logits).sum() == 10
    assert edits.open(logits := torch.arange(12.0), 1)
    assert logits.argmax() == 7
    assert not edits.open(logits, 2)
