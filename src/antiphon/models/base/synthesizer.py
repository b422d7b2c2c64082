"""What every speech model offers: phonemes in, samples out, in stages that other models' steps may come between."""

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
from antiphon.models.base.companions import LETTER_TO_SOUND
from antiphon.models.base.model import Model, Task
from antiphon.models.base.parts import SynthesisStages, VocabularyKind, WeightRules
from antiphon.models.base.speech_state import ForEach, Speech, SpeechState, join
from antiphon.weights.types import TensorType

#: Frames by which the decoder is ahead of the durations, in Kokoro and what is distilled from it.
LEAD_FRAMES = 3


def check_symbols(symbols: Any, num_symbols: int) -> dict[str, int]:
    """A model's table from phonemes to ids, of which 0 is none."""
    if not isinstance(symbols, dict) or not all(type(i) is int and 0 < i < num_symbols for i in symbols.values()):
        raise CheckpointError(f"vocab is no table from symbols to numbers from 1 to {num_symbols - 1}")
    return symbols


def _in_turn(function: Callable[[SpeechState], SpeechState], states: Sequence[SpeechState]) -> list[SpeechState]:
    return [function(state) for state in states]


class Synthesizer(Model):
    """Speaks whole utterances, several at a time; each gets the samples it would get alone: on the CPU bit by bit up to
    the pitch, on other devices but for rounding.
    """

    task = Task.SYNTHESIZE
    takes_compute_type = False
    vocabulary = VocabularyKind.PHONEMES
    companions = tuple(LETTER_TO_SOUND.values())
    #: The names of the stages, in order.
    stages: tuple[str, ...]
    sample_rate: int
    #: Phoneme → id.
    symbols: Mapping[str, int]
    #: Samples of a frame that durations count.
    frame_samples: int
    #: Numbers in a voice's style for each length of utterance; 0 for a model with one voice.
    style_size: int
    #: What matrices become where `precision` is "fast".
    fast_type: TensorType = TensorType.F16
    #: How many stages, from the first, compute every utterance by itself. The phase of a voice is its pitch added up
    #: over the utterance, so the last bit of the pitch is heard at its end: on the CPU it does not depend on the batch.
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
        """The modules that durations and pitch follow from: rounding in them moves whole phonemes."""
        return ()

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return next((leaf.device for leaf in self.leaves() if isinstance(leaf, Tensor)), torch.device("cpu"))

    def advance(self, stage: int, states: Sequence[SpeechState], for_each: ForEach = _in_turn) -> list[SpeechState]:
        """The states after a stage: what `for_each` gives while rows are computed by themselves, then a single one.

        `for_each` applies a function to states that are computed by themselves; by default one after the other.
        """
        if stage < self.lone_stages:
            return for_each(partial(self.run_stage, stage), states)
        return [self.run_stage(stage, join(states))]

    @abstractmethod
    def run_stage(self, stage: int, state: SpeechState) -> SpeechState:
        """One stage of all the rows."""

    @property
    def lead_samples(self) -> int:
        """Samples by which a phoneme is audible before the start that durations give it."""
        return LEAD_FRAMES * self.frame_samples

    def speech(self, state: SpeechState) -> list[Speech]:
        """The speech of a state that went through all stages."""
        size = self.frame_samples
        return [
            Speech(samples[: size * sum(counts)], [size * count for count in counts])
            for samples, counts in zip(state.tensors["samples"], state.frames_of_ids(), strict=True)
        ]
