"""Requests of every kind for the tiny model: edited logits, grammars, rules, stops, forks, beams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from antiphon.engine.beam import BeamGroup
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.transcript_rules import TranscriptRules
from support.engine.model_core import MODEL, VOCABULARY

LENGTH = 18
END = 190


class CountingGrammar:
    """Grammar in which token i has remainder i modulo 7, so that a mask is right for one position only.

    It raises at the position `breaks`, and when an ended request asks for a mask.
    """

    def __init__(self, request: Request, breaks: int | None = None) -> None:
        self._request, self._breaks = request, breaks
        self.position = 0
        self._positions = range(0)

    def advance(self, token: int) -> None:
        assert token % 7 == self.position % 7, f"token {token} at position {self.position}"
        self.position += 1

    def mask(self) -> np.ndarray:
        assert not self._request.is_ended, f"{self._request.id} has ended and asks for a mask"
        assert self.position == self._request.num_output_tokens
        if self.position == self._breaks:
            raise RuntimeError(f"the grammar ends at {self.position}")
        return self._mask(self.position)

    def _mask(self, position: int) -> np.ndarray:
        return np.packbits(np.arange(VOCABULARY) % 7 == position % 7, bitorder="little")

    def forced(self) -> list[int]:
        return []

    def num_allowed(self, tokens: Sequence[int]) -> int:
        fits = [token % 7 == (self.position + offset) % 7 for offset, token in enumerate(tokens)]
        return fits.index(False) if False in fits else len(fits)

    def draft(self, tokens: Sequence[int]) -> None:
        assert self.num_allowed(tokens) == len(tokens)
        self._positions = range(self.position + 1, self.position + 1 + len(tokens))

    def draft_masks(self) -> list[np.ndarray]:
        assert not self._request.is_ended and self._positions[0] == self._request.num_output_tokens + 1
        if self._breaks in self._positions:
            raise RuntimeError(f"the grammar ends at {self._breaks}")
        return [self._mask(position) for position in self._positions]


def request(name: str, prompt: list[int], **params: Any) -> Request:
    return Request(name, MODEL, prompt, SamplingParams(**{"max_tokens": LENGTH, **params}))


def one(change: Callable[[Request], None] | None = None, **params: Any) -> Callable[[str, list[int]], list[Request]]:
    def make(name: str, prompt: list[int]) -> list[Request]:
        made = request(name, prompt, **params)
        if change is not None:
            change(made)
        return [made]

    return make


def _grammar(made: Request) -> None:
    made.constraint = CountingGrammar(made)


def _broken_grammar(made: Request) -> None:
    made.constraint = CountingGrammar(made, breaks=7)


def _transcript(made: Request) -> None:
    """Apply transcript rules: timestamps are the ids from 200 on, in pairs that never go backwards."""
    made.rules = TranscriptRules(
        begin=made.num_prompt_tokens + 2, end_id=END, opening=((60, 61), (70,)), blank=frozenset({33}),
        first_timestamp=200,
    )  # fmt: skip
    made.stop_ids = frozenset({END})


def _likely_stops(made: Request) -> None:
    made.stop_ids = frozenset(made.params.logit_bias)


def _grammar_with_stop(made: Request) -> None:
    """Apply a grammar and stop tokens that end the request at position 7, while the next step is in flight."""
    _grammar(made)
    made.stop_ids = frozenset(range(0, VOCABULARY, 7))


def _stop_string(made: Request) -> None:
    """Stop after two even tokens in a row, which the listener sees one token at a time."""
    made.on_token = lambda token: len(made.output) > 3 and token % 2 == 0 and made.output[-2] % 2 == 0


def _forks(name: str, prompt: list[int]) -> list[Request]:
    """Build three samples of a prompt, the second under a grammar."""
    made: list[Request] = []
    for seed in range(3):
        fork = request(f"{name}-{seed}", prompt, temperature=0.9, seed=seed)
        fork.fork_of = made[0] if made else None
        if seed % 2:
            _grammar(fork)
        made.append(fork)
    return made


def _beams(name: str, prompt: list[int]) -> list[Request]:
    search = BeamGroup[Request](3)
    for index in range(3):
        member = request(f"{name}-{index}", prompt)
        member.fork_of = search.members[0] if search.members else None
        member.beam = search
        member.stop_ids = frozenset(range(40, 60))
        search.members.append(member)
    return search.members


_EVEN = dict.fromkeys(range(0, VOCABULARY, 2), 100.0)

KINDS: dict[str, Callable[[str, list[int]], list[Request]]] = {
    "greedy": one(),
    "drawn": one(temperature=0.9, top_p=0.9, top_k=40, min_p=0.01, seed=3),
    "penalties": one(frequency_penalty=1.5, presence_penalty=0.5, repetition_penalty=1.3),
    "bias": one(logit_bias={50: 6.0, 51: 5.0}, banned_tokens=frozenset({50}), temperature=0.8, seed=4),
    "typical": one(temperature=1.0, typical_p=0.5, seed=5),
    "logprobs": one(logprobs=2, temperature=0.7, seed=6),
    "prompt logprobs": one(prompt_logprobs=True, logprobs=1),
    "grammar": one(_grammar),
    "drawn grammar": one(_grammar, temperature=1.0, seed=7, frequency_penalty=0.5, min_tokens=3),
    "broken grammar": one(_broken_grammar),
    "stopped grammar": one(_grammar_with_stop, min_tokens=6),
    "transcript": one(_transcript, temperature=1.0, seed=8),
    "minimum": one(_likely_stops, min_tokens=9, logit_bias=_EVEN),
    "stop string": one(_stop_string, temperature=1.0, seed=9),
    "forks": _forks,
    "beams": _beams,
}


def answer_of(made: Request) -> tuple[Any, ...]:
    """Return what the caller receives: output, finish reason, error, top tokens and logprobs."""
    top = [[token for token, _ in pairs] for pairs in made.top_logprobs]
    readings = [round(value, 3) for value in (*made.logprobs, *made.prompt_logprobs, *made.drawn_logprobs)]
    return made.output, made.finish_reason, made.error, top, readings


def is_beginning(made: Request, expected: tuple[Any, ...]) -> bool:
    """Return whether an aborted request's output is a prefix of the expected one; always True for beam searches."""
    return made.beam is not None or made.output == expected[0][: made.num_output_tokens]
