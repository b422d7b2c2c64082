"""`Synthesizer`: speech models from phonemes to samples, in stages between which other models may run steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import CheckpointError
from antiphon.layers.module import Module
from antiphon.models.base.companions import COMPANIONS
from antiphon.models.base.model import Model, Task
from antiphon.models.base.parts import SynthesisStages, VocabularyKind, WeightRules
from antiphon.models.base.speech_state import ForEach, Speech, SpeechState, join
from antiphon.weights.types import TensorType

#: Frames by which the decoder precedes the durations, in Kokoro and models distilled from it.
LEAD_FRAMES = 3


def check_symbols(symbols: Any, num_symbols: int) -> dict[str, int]:
    """Return a model's table from phonemes to ids; reject ids outside 1 to `num_symbols` - 1."""
    if not isinstance(symbols, dict) or not all(type(i) is int and 0 < i < num_symbols for i in symbols.values()):
        raise CheckpointError(f"vocab is no table from symbols to numbers from 1 to {num_symbols - 1}")
    return symbols


def _in_turn(function: Callable[[SpeechState], SpeechState], states: Sequence[SpeechState]) -> list[SpeechState]:
    return [function(state) for state in states]


class Synthesizer(Model):
    """A speech model that computes whole utterances, several at a time.

    Each utterance gets the samples that it would get alone: on the CPU bit by bit up to the pitch, on other devices
    except for rounding.
    """

    task = Task.SYNTHESIZE
    takes_compute_type = False
    vocabulary = VocabularyKind.PHONEMES
    companions = COMPANIONS["synthesize"]
    stages: tuple[str, ...]
    sample_rate: int
    symbols: Mapping[str, int]
    #: Samples per frame of the durations.
    frame_samples: int
    #: Numbers in a voice's style per length of utterance; 0 for a model with a single voice.
    style_size: int
    #: Type of matrices if `precision` is "fast".
    fast_type: TensorType = TensorType.F16
    #: Number of first stages that compute every utterance separately. A voice's phase accumulates its pitch over the
    #: utterance, so the last bit of the pitch is audible at its end: on the CPU it must not depend on the batch.
    lone_stages: int

    def parts(self) -> tuple[SynthesisStages, ...]:
        stages = SynthesisStages(
            owner=type(self).__name__,
            stages=self.stages,
            lone_stages=self.lone_stages,
            max_positions=self.max_positions,
            style_size=self.style_size,
            advance=self.advance,
            speech=self.speech,
        )
        return (stages,)

    def weight_rules(self) -> WeightRules:
        return replace(WeightRules.of(self), exact=tuple(self.prosody_modules()), fast_type=self.fast_type)

    def prosody_modules(self) -> Sequence[Module]:
        """Return the modules that decide durations and pitch: rounding in them shifts whole phonemes."""
        return ()

    @property
    def device(self) -> torch.device:
        return next((leaf.device for leaf in self.leaves() if isinstance(leaf, Tensor)), torch.device("cpu"))

    def advance(self, stage: int, states: Sequence[SpeechState], for_each: ForEach = _in_turn) -> list[SpeechState]:
        """Return the states after a stage: one per given state in the lone stages, later a single joined state.

        `for_each` applies a function to several states; by default to one after the other.
        """
        if stage < self.lone_stages:
            return for_each(partial(self.run_stage, stage), states)
        return [self.run_stage(stage, join(states))]

    @abstractmethod
    def run_stage(self, stage: int, state: SpeechState) -> SpeechState:
        """Run a stage on all rows of a state."""

    @property
    def lead_samples(self) -> int:
        """Samples by which a phoneme is audible before its start according to the durations."""
        return LEAD_FRAMES * self.frame_samples

    def speech(self, state: SpeechState) -> list[Speech]:
        """Return the speech of a state after all stages, one per row."""
        size = self.frame_samples
        return [
            Speech(samples[: size * sum(counts)], [size * count for count in counts])
            for samples, counts in zip(state.tensors["samples"], state.frames_of_ids(), strict=True)
        ]
