"""Hibari: a small speech model distilled from Kokoro, with ConvNeXt blocks and a pulse-and-noise vocoder."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.convolution import Convolution
from antiphon.layers.encoder import NORM_EPS, EncoderBlock
from antiphon.layers.linear import Embedding, Linear
from antiphon.layers.module import Module
from antiphon.layers.norm import LayerNorm
from antiphon.models.base.speech_state import FlatRows, SpeechState, flatten, upload
from antiphon.models.base.synthesizer import Synthesizer, check_symbols
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.source import Source
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

SAMPLE_RATE = 24_000
WIDTH = 1200
HOP = 300
NUM_BINS = WIDTH // 2 + 1
NUM_SYMBOLS = 178
NUM_HEADS = 2
TEXT_KERNEL, FRAME_KERNEL = 5, 7
#: Width of the text side and the number of times its layer is applied, in the decoder and in the prosody predictor.
DECODER_TEXT, PROSODY_TEXT = (128, 4), (192, 6)
DECODER_SIZE, DECODER_BLOCKS, TEXT_BLOCKS = 256, 8, 2
PROSODY_DILATIONS = (1, 2, 4, 8, 1, 2)
PITCH_SCALE, ENERGY_SCALE, FEATURE_SCALE = 100.0, 5.0, 0.2
MAX_POSITIONS = 512


class ConvNextBlock(Module):
    """x + gamma * mlp(norm(depthwise(x))), masked. arXiv:2201.03545."""

    def __init__(self, source: Source, size: int, kernel: int, inner: int, dilation: int = 1) -> None:
        self.depthwise = Convolution(source, "dw", size, size, kernel, groups=size, dilation=dilation)
        self.norm = LayerNorm(source, "norm", size, NORM_EPS)
        self.first = Linear(source, "pw1", size, inner, bias=True, activation="gelu")
        # Gamma is folded into the second product.
        gamma = source.tensor("gamma", (size,))
        self.second = Weight.from_tensor(source.tensor("pw2.weight", (size, inner)) * gamma[:, None])
        self.second_bias = source.tensor("pw2.bias", (size,)) * gamma

    def __call__(self, x: Tensor, lengths: Tensor) -> Tensor:
        rows = self.norm(self.depthwise(x)).flatten(0, 1)
        y = ops.linear(self.first(rows), self.second, self.second_bias, residual=x.flatten(0, 1))
        return ops.mask_frames(y.view_as(x), lengths)


class TextSide(Module):
    """Phonemes → states [B, T, size]."""

    def __init__(self, source: Source, size: int, repeats: int) -> None:
        self.embedding = Embedding(source, "emb", NUM_SYMBOLS, size)
        self.blocks = [ConvNextBlock(source.at("convs", n), size, TEXT_KERNEL, 2 * size) for n in range(TEXT_BLOCKS)]
        self.layer = EncoderBlock(source.at("attn"), size, 2 * size, NUM_HEADS)  # applied `repeats` times
        self.norm = LayerNorm(source, "norm", size, NORM_EPS)
        self.repeats = repeats

    def __call__(self, rows: FlatRows) -> Tensor:
        x = ops.pad_rows(self.embedding(rows.ids), rows.seq_start, rows.longest)
        for block in self.blocks:
            x = block(x, rows.lengths)
        y = ops.pack_rows(x, rows.lengths, len(rows.ids))
        for _ in range(self.repeats):
            y = self.layer(y, rows.seq_start)
        return ops.pad_rows(self.norm(y), rows.seq_start, rows.longest)


class Hibari(Synthesizer):
    """A speech model with one voice. Its weights have 8 bits; if `precision` is "fast", so have its products."""

    architectures = ("hibari",)
    stages = ("text", "prosody", "decoder", "waveform")
    lone_stages = 4
    sample_rate = SAMPLE_RATE
    frame_samples = 2 * HOP
    style_size = 0
    fast_type = TensorType.I8

    def __init__(self, source: Source, symbols: dict[str, int]) -> None:
        self.vocab_size = NUM_SYMBOLS
        self.max_positions = MAX_POSITIONS
        self.symbols = symbols
        decoder, prosody = source.at("m"), source.at("pn")
        self.decoder_text = TextSide(decoder.at("text"), *DECODER_TEXT)
        self.prosody_text = TextSide(prosody.at("text"), *PROSODY_TEXT)
        text, size = PROSODY_TEXT[0], DECODER_SIZE
        self.duration1 = Convolution(prosody, "dur.0", text, text, 3)
        self.duration2 = Convolution(prosody, "dur.2", text, 1, 1)
        self.prosody_in = Convolution(prosody, "pro_in", text, text, 1)
        self.prosody_blocks = [
            ConvNextBlock(prosody.at("pro", n), text, FRAME_KERNEL, 2 * text, dilation)
            for n, dilation in enumerate(PROSODY_DILATIONS)
        ]
        self.prosody_out = Convolution(prosody, "pro_out", text, 4, 1)
        # Each frame has two values of pitch, in Hz, then two of energy, on the decoder's scale.
        scale = torch.tensor([PITCH_SCALE, PITCH_SCALE, ENERGY_SCALE * FEATURE_SCALE, ENERGY_SCALE * FEATURE_SCALE])
        assert self.prosody_out.bias is not None
        self.prosody_out.weight = self.prosody_out.weight * scale[:, None, None]
        self.prosody_out.bias = self.prosody_out.bias * scale
        self.decoder_in = Convolution(decoder, "dec_in", DECODER_TEXT[0] + 2, size, FRAME_KERNEL)
        self.decoder_blocks = [
            ConvNextBlock(decoder.at("dec", n), size, FRAME_KERNEL, 3 * size) for n in range(DECODER_BLOCKS)
        ]
        self.decoder_norm = LayerNorm(decoder, "dec_norm", size, NORM_EPS)
        self.head = Linear(decoder, "head", size, 5 * NUM_BINS, bias=True)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        return cls(Source(checkpoint), check_symbols(checkpoint.metadata.get("vocab"), NUM_SYMBOLS))

    def run_stage(self, stage: int, state: SpeechState) -> SpeechState:
        return (self._text, self._prosody, self._decode, self._waveform)[stage](state)

    def _text(self, state: SpeechState) -> SpeechState:
        rows = flatten([utterance.ids for utterance in state.utterances], self.device)
        speed = upload(torch.tensor([utterance.speed for utterance in state.utterances]), self.device)
        meaning = self.prosody_text(rows)
        hidden = ops.conv1d(meaning, self.duration1.weight, self.duration1.bias, padding=(1, 1), activation="gelu")
        counts = ops.frame_counts(self.duration2(hidden), rows.lengths, speed, "expm1")
        text = self.decoder_text(rows)
        return state.with_({"frames": counts.sum(1)}, counts=counts, meaning=meaning, text=text)

    def _prosody(self, state: SpeechState) -> SpeechState:
        have, frames = state.tensors, state.lengths["frames"]
        expanded = ops.expand_frames(have["meaning"], have["counts"], max(state.num_frames()))
        x = ops.mask_frames(self.prosody_in(expanded), frames)
        for block in self.prosody_blocks:
            x = block(x, frames)
        curves = ops.mask_frames(self.prosody_out(x), frames)  # [B, frames, 4]
        pitch, energy = (part.flatten(1)[..., None] for part in curves.split(2, dim=-1))
        return state.without("meaning").with_(pitch=pitch, energy=energy)

    def _decode(self, state: SpeechState) -> SpeechState:
        have, lengths = state.tensors, 2 * state.lengths["frames"]
        text = ops.repeat_frames(ops.expand_frames(have["text"], have["counts"], max(state.num_frames())), 2)
        x = ops.concatenate([text, ops.log_pitch(have["pitch"], FEATURE_SCALE), have["energy"]])
        x = ops.mask_frames(self.decoder_in(ops.mask_frames(x, lengths)), lengths)
        for block in self.decoder_blocks:
            x = block(x, lengths)
        spectra = self.head(self.decoder_norm(x).flatten(0, 1)).unflatten(0, x.shape[:2])
        return state.without("text", "energy").with_({"spectra": lengths}, spectra=spectra)

    def _waveform(self, state: SpeechState) -> SpeechState:
        have, lengths = state.tensors, torch.tensor([2 * frames for frames in state.num_frames()])  # on the host
        pairs = zip(state.utterances, lengths.tolist(), strict=True)
        noise = [upload(_noise(utterance.seed, frames), self.device) for utterance, frames in pairs]
        pitch = have["pitch"].squeeze(-1)
        samples = ops.pulse_noise_vocoder(have["spectra"], pitch, noise, lengths, WIDTH, HOP, SAMPLE_RATE)
        return state.without("spectra", "pitch").with_(samples=samples)


def _noise(seed: int, frames: int) -> Tensor:
    """Return complex noise [bins, frames] that depends on the seed alone."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((NUM_BINS, 2 * frames), dtype=np.float32)
    return torch.from_numpy(values.view(np.complex64))
