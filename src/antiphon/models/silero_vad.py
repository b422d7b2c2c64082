"""Silero VAD: the probability of speech every 32 ms, from a short-time spectrum, four convolutions and an LSTM.

Up to the LSTM, chunks are independent, so all chunks of all streams go through these layers in one batch. Each
convolution there, over the four spectra of a chunk, is a matrix with zeros outside its kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon import ops
from antiphon.errors import UnsupportedError
from antiphon.layers.module import Module
from antiphon.models.base.detector import DetectorModel
from antiphon.models.base.model import Task
from antiphon.ops import LSTMWeights
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.source import Source
from antiphon.weights.weight import Weight

HIDDEN = 128
SPECTRA = 4  # per chunk
#: Sample rates in Hz by number of points of the spectrum.
RATES = {256: 16_000, 128: 8_000}
_BLOCK_CHUNKS = 1024  # maximum of all streams together, per pass
#: Minimum chunks of a pass over streams of different lengths, which otherwise ends with the shortest.
_MIN_TOGETHER = 8
#: Chunks with a lower probability of speech count towards `VoiceState.restart_chunks`.
QUIET_PROBABILITY = 0.25

Floats = NDArray[np.float32]


class ChunkConvolution(Module):
    """A convolution of width 3 with ReLU over the few frames of a chunk, as one matrix product.

    It maps [N, frames * inputs] to [N, output frames * outputs].
    """

    def __init__(self, source: Source, name: str, inputs: int, outputs: int, frames: int, stride: int = 1) -> None:
        taps = source.tensor(f"{name}.weight", (outputs, inputs, 3))
        bias = source.tensor(f"{name}.bias", (outputs,))
        self.frames = (frames - 1) // stride + 1
        matrix = torch.zeros(self.frames, outputs, frames, inputs)
        for target in range(self.frames):
            for tap in range(3):
                origin = target * stride + tap - 1
                if 0 <= origin < frames:
                    matrix[target, :, origin] = taps[:, :, tap]
        self.weight = Weight.from_tensor(matrix.view(self.frames * outputs, frames * inputs))
        self.bias = bias.repeat(self.frames)

    def __call__(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias, activation="relu")


@dataclass
class VoiceState:
    """The state of a stream between calls; `voice_probabilities` overwrites it."""

    context: Floats  # the end of the last chunk
    rest: Floats  # samples that do not fill a chunk yet
    hidden: Tensor  # [2, HIDDEN]: output and cell of the LSTM
    restart_chunks: int | None = None  # consecutive chunks without speech after which the LSTM restarts
    num_quiet: int = 0  # chunks without speech since the last speech or restart of the LSTM

    def until_restart(self, count: int) -> int:
        """Return how many of the next `count` chunks to compute before the LSTM may restart."""
        return count if self.restart_chunks is None else min(count, self.restart_chunks - self.num_quiet)

    def advance(self, hidden: Tensor, probabilities: Floats) -> None:
        """Store the LSTM's state after chunks up to `until_restart`, or restart the LSTM."""
        self.hidden = hidden
        if self.restart_chunks is None:
            return
        spoken = np.flatnonzero(probabilities >= QUIET_PROBABILITY)
        before = -1 - self.num_quiet if not len(spoken) else int(spoken[-1])
        self.num_quiet = len(probabilities) - 1 - before
        if self.num_quiet >= self.restart_chunks:
            self.hidden, self.num_quiet = torch.zeros_like(hidden), 0


@dataclass(frozen=True)
class VoiceInput:
    """New samples of a stream. If they are `final`, an incomplete chunk is padded with silence."""

    samples: Floats
    state: VoiceState
    final: bool = False


class SileroVAD(DetectorModel):
    """A detector from chunks of sound to the probability of speech in each."""

    architectures = ("silero-vad",)
    task = Task.VOICE_ACTIVITY
    step_size = _BLOCK_CHUNKS

    def __init__(self, window: int, source: Source) -> None:
        self.window = window
        self.rate = RATES[window]
        self.hop = window // 2
        self.chunk = 2 * window  # samples
        self.context = window // 4  # samples of the previous chunk that are read again
        bins = window // 2 + 1
        self.bins = bins
        basis = source.tensor("stft_conv.weight", (2 * bins, 1, window))
        self.basis = Weight.from_tensor(basis[:, 0])
        self.conv1 = ChunkConvolution(source, "conv1", bins, 128, SPECTRA)
        self.conv2 = ChunkConvolution(source, "conv2", 128, 64, self.conv1.frames, stride=2)
        self.conv3 = ChunkConvolution(source, "conv3", 64, 64, self.conv2.frames, stride=2)
        self.conv4 = ChunkConvolution(source, "conv4", 64, HIDDEN, self.conv3.frames)
        cell = source.at("lstm_cell")
        self.lstm = LSTMWeights(
            cell.tensor("weight_ih", (4 * HIDDEN, HIDDEN)),
            cell.tensor("weight_hh", (4 * HIDDEN, HIDDEN)),
            cell.tensor("bias_ih", (4 * HIDDEN,)),
            cell.tensor("bias_hh", (4 * HIDDEN,)),
        )
        self.head = Weight.from_tensor(source.tensor("final_conv.weight", (1, HIDDEN, 1))[:, :, 0])
        self.head_bias = source.tensor("final_conv.bias", (1,))

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        window = checkpoint.stored("stft_conv.weight").shape[-1]
        if window not in RATES:
            raise UnsupportedError(f"silero-vad with spectra of {window} points; known: {', '.join(map(str, RATES))}")
        return cls(window, Source(checkpoint))

    def weight_bytes(self) -> int:
        recurrent = (self.lstm.input, self.lstm.hidden, self.lstm.input_bias, self.lstm.hidden_bias)
        return super().weight_bytes() + sum(tensor.nbytes for tensor in recurrent)

    def input_size(self, given: VoiceInput) -> int:
        return max(1, len(given.samples) // self.chunk)

    def detect(self, inputs: Sequence[VoiceInput]) -> list[Floats]:
        return voice_probabilities(
            self,
            [given.samples for given in inputs],
            [given.state for given in inputs],
            final=[given.final for given in inputs],
        )

    @property
    def max_samples(self) -> int:
        """Samples of an input that fills a step alone."""
        return _BLOCK_CHUNKS * self.chunk

    @property
    def chunk_seconds(self) -> float:
        return self.chunk / self.rate

    def initial_state(self, restart_seconds: float | None = None) -> VoiceState:
        """Return the state of a stream that has not begun.

        After long loud noise the LSTM misses the following speech. With `restart_seconds`, it restarts whenever no
        speech was detected for that many seconds.
        """
        empty = np.zeros(0, np.float32)
        chunks = None if restart_seconds is None else max(1, round(restart_seconds / self.chunk_seconds))
        return VoiceState(np.zeros(self.context, np.float32), empty, torch.zeros(2, HIDDEN), chunks)

    def features(self, chunks: Tensor) -> Tensor:
        """Return the LSTM's inputs [B, N, HIDDEN] for chunks [B, N, 5 * hop].

        A chunk is its context, its own samples, and the mirrored end of these, as long as the context. One hop of
        readable memory, of any values, must follow the chunks.
        """
        rows, count, _ = chunks.shape
        # Take five spectra per chunk, one hop apart; drop the fifth, which reaches into the next chunk.
        spans = chunks.as_strided((rows * count * (SPECTRA + 1), self.window), (self.hop, 1))
        spectra = ops.activate(ops.linear(spans, self.basis), "magnitude")  # [B * N * 5, bins]
        x = spectra.view(rows * count, (SPECTRA + 1) * self.bins)[:, : SPECTRA * self.bins]
        return self.conv4(self.conv3(self.conv2(self.conv1(x)))).view(rows, count, HIDDEN)

    def recur(self, x: Tensor, lengths: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
        """Return probabilities [B, N] of features [B, N, HIDDEN], defined for the first lengths[b] of each row.

        `state` (output and cell, each [1, B, HIDDEN]) is read and overwritten.
        """
        rows, count, _ = x.shape
        x = ops.lstm(x, lengths, self.lstm, state=state)
        x = ops.activate(x, "relu").view(rows * count, HIDDEN)
        return ops.activate(ops.linear(x, self.head, self.head_bias), "sigmoid").view(rows, count)


@torch.inference_mode()
def voice_probabilities(
    model: SileroVAD, sounds: Sequence[Floats], states: Sequence[VoiceState], *, final: Sequence[bool] | bool = False
) -> list[Floats]:
    """Return each stream's speech probabilities, one per chunk that its new samples complete.

    Samples have the model's rate. The probabilities of a stream do not depend on how it is split into calls. With
    `final`, for all streams or per stream, an incomplete chunk is padded with silence. Memory is bounded for audio of
    any length.
    """
    ends = [final] * len(sounds) if isinstance(final, bool) else final
    waiting = [_chunks(model, *stream) for stream in zip(sounds, states, ends, strict=True)]
    found: list[list[Floats]] = [[] for _ in waiting]
    position = 0
    while active := [index for index, chunks in enumerate(waiting) if len(chunks) > position]:
        shortest = min(len(waiting[index]) for index in active) - position
        step = max(1, min(_BLOCK_CHUNKS // len(active), max(_MIN_TOGETHER, shortest)))
        lengths = [min(step, len(waiting[index]) - position) for index in active]
        batch = torch.zeros(len(active) * max(lengths) * (SPECTRA + 1) * model.hop + model.hop)
        chunks = batch[: -model.hop].view(len(active), max(lengths), (SPECTRA + 1) * model.hop)
        filled = chunks.numpy()
        for row, (index, length) in enumerate(zip(active, lengths, strict=True)):
            seen = waiting[index][position : position + length]
            filled[row, :length, : seen.shape[1]] = seen
            filled[row, :length, seen.shape[1] :] = seen[:, -2 : -model.context - 2 : -1]
        parts = _recurrent(model, model.features(chunks), lengths, [states[index] for index in active])
        for index, part in zip(active, parts, strict=True):
            found[index].append(part)
        position += step
    return [np.concatenate(parts) if parts else np.zeros(0, np.float32) for parts in found]


def _recurrent(model: SileroVAD, x: Tensor, lengths: Sequence[int], states: Sequence[VoiceState]) -> list[Floats]:
    """Return the probabilities of the first lengths[b] features of each row, and advance the states."""
    found: list[list[Floats]] = [[] for _ in states]
    done = [0] * len(states)
    while active := [row for row, length in enumerate(lengths) if done[row] < length]:
        counts = [states[row].until_restart(lengths[row] - done[row]) for row in active]
        if counts == list(lengths):
            part = x
        else:
            part = x.new_zeros(len(active), max(counts), HIDDEN)
            for index, (row, count) in enumerate(zip(active, counts, strict=True)):
                part[index, :count] = x[row, done[row] : done[row] + count]
        hidden = torch.stack([states[row].hidden for row in active], dim=1)  # [2, B, HIDDEN]
        probabilities = model.recur(part, torch.tensor(counts), (hidden[:1], hidden[1:])).numpy()
        for index, (row, count) in enumerate(zip(active, counts, strict=True)):
            found[row].append(probabilities[index, :count].copy())
            states[row].advance(hidden[:, index].clone(), found[row][-1])
            done[row] += count
    return [np.concatenate(parts) for parts in found]


def _chunks(model: SileroVAD, sound: Floats, state: VoiceState, final: bool) -> Floats:
    """Return a view of the complete chunks [N, context + chunk], and keep the remaining samples in the state."""
    sound = np.concatenate([state.rest, sound.astype(np.float32, copy=False)])
    if final and len(sound) % model.chunk:
        sound = np.pad(sound, (0, -len(sound) % model.chunk))
    count = len(sound) // model.chunk
    signal = np.concatenate([state.context, sound[: count * model.chunk]])
    state.rest = sound[count * model.chunk :].copy()
    if not count:
        return np.zeros((0, model.context + model.chunk), np.float32)
    state.context = signal[-model.context :].copy()
    return np.lib.stride_tricks.sliding_window_view(signal, model.context + model.chunk)[:: model.chunk]
