"""Kokoro's sound side: a decoder of frames, then iSTFTNet (arXiv:2203.02395) with a harmonic source."""

from __future__ import annotations

import math

from torch import Tensor

from antiphon import ops
from antiphon.layers.convolution import Convolution, TransposedConvolution
from antiphon.layers.module import Module
from antiphon.models.kokoro.blocks import SnakeBlock, StyleBlock
from antiphon.models.kokoro.config import SAMPLE_RATE, KokoroConfig
from antiphon.models.kokoro.transform import transform_basis
from antiphon.weights.source import Source

DECODER_CHANNELS = 1024
RESIDUAL_CHANNELS = 64
NUM_DECODE_BLOCKS = 4
NUM_HARMONICS = 9
VOICED_THRESHOLD = 10.0  # Hz
SINE_GAIN = 0.1
UPSAMPLE_SLOPE = 0.1
OUTPUT_SLOPE = 0.01
NOISE_KERNELS = (7, 11)


class FrameDecoder(Module):
    """Text, pitch and energy by frame → the generator's input, with twice as many frames."""

    def __init__(self, source: Source, config: KokoroConfig) -> None:
        hidden, style = config.hidden_size, config.style_size
        wide = DECODER_CHANNELS + RESIDUAL_CHANNELS + 2
        self.pitch_conv = Convolution(source, "F0_conv", 1, 1, 3, stride=2)
        self.energy_conv = Convolution(source, "N_conv", 1, 1, 3, stride=2)
        self.text_residual = Convolution(source, "asr_res.0", hidden, RESIDUAL_CHANNELS, 1)
        encode = source.at("encode")
        self.encode = StyleBlock(encode, encode, hidden + 2, DECODER_CHANNELS, style)
        self.decode = []
        for index in range(NUM_DECODE_BLOCKS):
            last = index == NUM_DECODE_BLOCKS - 1
            own = source.at("decode", index)
            outputs = config.upsample_channels if last else DECODER_CHANNELS
            self.decode.append(StyleBlock(own, own, wide, outputs, style, upsample=last))

    def __call__(self, text: Tensor, pitch: Tensor, energy: Tensor, style: Tensor, lengths: Tensor) -> Tensor:
        pitch, energy = self.pitch_conv(pitch), self.energy_conv(energy)  # [B, frames, 1]
        x = self.encode(ops.concatenate([text, pitch, energy]), style, lengths)
        residual = self.text_residual(text)
        for block in self.decode:
            x = block(ops.concatenate([x, residual, pitch, energy]), style, lengths)
        return x


class HarmonicSource(Module):
    """Pitch → the spectrum of a harmonic source with that pitch."""

    def __init__(self, source: Source, config: KokoroConfig) -> None:
        self.weight = source.tensor("m_source.l_linear.weight", (1, NUM_HARMONICS)).view(-1)
        self.bias = source.tensor("m_source.l_linear.bias", (1,))
        self.basis = transform_basis(config.transform_size)
        self.hop = config.hop
        self.transform_hop = config.transform_hop

    def __call__(self, pitch: Tensor, lengths: Tensor) -> Tensor:
        """Return magnitudes and phases [B, T * hop / transform_hop + 1, bins] for pitch [B, T]."""
        sound = ops.harmonic_source(
            pitch, lengths, self.weight, self.bias, self.hop, SAMPLE_RATE, VOICED_THRESHOLD, SINE_GAIN
        )
        return ops.harmonic_spectrum(sound, lengths * self.hop, self.basis, self.transform_hop)


class UpsampleStage(Module):
    """Upsampling to more frames with fewer channels, plus the source, then the mean of three blocks."""

    def __init__(self, source: Source, config: KokoroConfig, index: int) -> None:
        rates, kernels = config.upsample_rates, config.upsample_kernels
        inputs, channels = config.upsample_channels >> index, config.upsample_channels >> (index + 1)
        bins, style = config.transform_size + 2, config.style_size
        self.is_last = index == len(rates) - 1
        self.rate = rates[index]
        self.up = TransposedConvolution(source, f"ups.{index}", inputs, channels, kernels[index], rates[index])
        later = math.prod(rates[index + 1 :])
        width = 1 if self.is_last else 2 * later
        padding = 0 if self.is_last else (later + 1) // 2
        self.noise_conv = Convolution(
            source, f"noise_convs.{index}", bins, channels, width, stride=later, padding=padding
        )
        dilations = config.block_dilations[0]
        self.noise_block = SnakeBlock(source.at("noise_res", index), channels, NOISE_KERNELS[index], dilations, style)
        count = len(config.block_kernels)
        self.blocks = [
            SnakeBlock(source.at("resblocks", index * count + n), channels, width, dilations, style)
            for n, (width, dilations) in enumerate(zip(config.block_kernels, config.block_dilations, strict=True))
        ]

    def out_lengths(self, lengths: Tensor) -> Tensor:
        return lengths * self.rate + (1 if self.is_last else 0)

    def begin(self, x: Tensor, spectrum: Tensor, style: Tensor, lengths: Tensor) -> Tensor:
        """Return the blocks' input: `out_lengths(lengths)` frames for the `lengths` frames of x."""
        noise = self.noise_block(self.noise_conv(spectrum), style, self.out_lengths(lengths))
        x = self.up(ops.leaky_relu(x, UPSAMPLE_SLOPE, lengths))
        if self.is_last:  # one additional frame, mirrored at the start
            return ops.add(ops.prepend_mirrored(x), noise)
        return ops.add(x, noise)


class Generator(Module):
    def __init__(self, source: Source, config: KokoroConfig) -> None:
        bins = config.transform_size + 2
        self.source = HarmonicSource(source, config)
        self.upsampling = [UpsampleStage(source, config, index) for index in range(len(config.upsample_rates))]
        channels = config.upsample_channels >> len(config.upsample_rates)
        self.post = Convolution(source, "conv_post", channels, bins, 7)
        stft = source.at("stft", "istft", "stft")
        self.basis = stft.tensor("inverse_basis", (bins, 1, config.transform_size))
        self.edge = stft.tensor("window_sum", (config.transform_size,))
        self.transform_hop = config.transform_hop

    def samples(self, x: Tensor, lengths: Tensor) -> Tensor:
        x = self.post(ops.leaky_relu(x, OUTPUT_SLOPE, lengths))
        return ops.inverse_spectrum(x, lengths, self.basis, self.edge, self.transform_hop)
