"""Kokoro-82M: StyleTTS 2 (arXiv:2306.07691) with an iSTFTNet vocoder, from phonemes to samples in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import torch

from antiphon import ops
from antiphon.layers.linear import Linear
from antiphon.layers.module import Module
from antiphon.models.base.speech_state import SpeechState, flatten, upload
from antiphon.models.base.synthesizer import Synthesizer
from antiphon.models.kokoro.config import SAMPLE_RATE, KokoroConfig, config_from_json
from antiphon.models.kokoro.decoder import FrameDecoder, Generator
from antiphon.models.kokoro.text import PhonemeBert, Predictor, TextEncoder
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.source import Source


class Kokoro(Synthesizer):
    """The Kokoro model. The first half of a voice's style goes to the decoder, the second to the predictors.

    The decoder's norms need the whole utterance, so its stages are split by layers, not by time.
    """

    architectures = ("kokoro",)

    def __init__(self, config: KokoroConfig, source: Source) -> None:
        self.config = config
        self.vocab_size = config.num_symbols
        self.max_positions = config.max_positions
        self.symbols = config.symbols
        self.sample_rate = SAMPLE_RATE
        self.frame_samples = 2 * config.hop
        self.style_size = 2 * config.style_size
        encoder, decoder = source.at("encoder"), source.at("decoder", "decoder")
        self.bert = PhonemeBert(encoder.at("bert"), config)
        self.bert_encoder = Linear(encoder, "bert_encoder", config.bert_size, config.hidden_size, bias=True)
        self.predictor = Predictor(encoder, config)
        self.text_encoder = TextEncoder(encoder.at("text_encoder"), config)
        self.decoder = FrameDecoder(decoder, config)
        self.generator = Generator(decoder.at("generator"), config)
        names, self._steps = zip(*self._make_stages(), strict=True)
        self.stages: tuple[str, ...] = names
        self.lone_stages = names.index("decoder")

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        return cls(config_from_json(checkpoint.metadata), Source(checkpoint))

    def prosody_modules(self) -> Sequence[Module]:
        return self.bert, self.bert_encoder, self.predictor

    def _make_stages(self) -> list[tuple[str, Callable[[SpeechState], SpeechState]]]:
        stages: list[tuple[str, Callable[[SpeechState], SpeechState]]] = [
            ("text", self._text),
            ("prosody", self._prosody),
            ("source", self._source),
            ("decoder", self._decode),
        ]
        for index, stage in enumerate(self.generator.upsampling):
            stages.append((f"upsample.{index}", partial(self._upsample, index)))
            stages += [(f"block.{index}.{n}", partial(self._block, index, n)) for n in range(len(stage.blocks))]
        return [*stages, ("waveform", self._waveform)]

    def run_stage(self, stage: int, state: SpeechState) -> SpeechState:
        return self._steps[stage](state)

    def _text(self, state: SpeechState) -> SpeechState:
        rows = flatten([utterance.ids for utterance in state.utterances], self.device)
        styles = upload(torch.stack([utterance.style for utterance in state.utterances]), self.device)
        decoder_style, style = styles.split(self.config.style_size, dim=-1)
        speed = upload(torch.tensor([utterance.speed for utterance in state.utterances]), self.device)
        meaning = ops.pad_rows(self.bert_encoder(self.bert(rows)), rows.seq_start, rows.longest)
        encoded = self.predictor.text(meaning, style, rows.lengths)
        counts = self.predictor.frame_counts(encoded, rows.lengths, speed)
        return state.with_(
            {"ids": rows.lengths, "frames": counts.sum(1)},
            style=style,
            decoder_style=decoder_style,
            counts=counts,
            encoded=encoded,
            text=self.text_encoder(rows),
        )

    def _prosody(self, state: SpeechState) -> SpeechState:
        have, frames, longest = state.tensors, state.lengths["frames"], max(state.num_frames())
        expanded = ops.expand_frames(have["encoded"], have["counts"], longest)
        pitch, energy = self.predictor.curves(expanded, have["style"], frames)
        text = ops.expand_frames(have["text"], have["counts"], longest)
        return state.without("encoded", "style").with_(text=text, pitch=pitch, energy=energy)

    def _source(self, state: SpeechState) -> SpeechState:
        frames = state.lengths["frames"]
        return state.with_(spectrum=self.generator.source(state.tensors["pitch"].squeeze(-1), 2 * frames))

    def _decode(self, state: SpeechState) -> SpeechState:
        have, frames = state.tensors, state.lengths["frames"]
        x = self.decoder(have["text"], have["pitch"], have["energy"], have["decoder_style"], frames)
        return state.without("text", "energy", "pitch").with_({"x": 2 * frames}, x=x)

    def _upsample(self, index: int, state: SpeechState) -> SpeechState:
        stage, have, lengths = self.generator.upsampling[index], state.tensors, state.lengths["x"]
        x = stage.begin(have["x"], have["spectrum"], have["decoder_style"], lengths)
        return state.without("x").with_({"x": stage.out_lengths(lengths)}, start=x)

    def _block(self, index: int, number: int, state: SpeechState) -> SpeechState:
        blocks, have = self.generator.upsampling[index].blocks, state.tensors
        y = blocks[number](have["start"], have["decoder_style"], state.lengths["x"])
        last = number == len(blocks) - 1
        if number:
            y = ops.add(have["x"], y, 1 / len(blocks) if last else 1.0)
        state = state.with_(x=y)
        return state.without("start") if last else state

    def _waveform(self, state: SpeechState) -> SpeechState:
        samples = self.generator.samples(state.tensors["x"], state.lengths["x"])
        return state.without("x", "spectrum").with_(samples=samples)
