"""Layers that Kokoro's predictor and decoder share: norms with scale and shift from a style, and residual blocks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from antiphon import ops
from antiphon.layers.convolution import Convolution, TransposedConvolution
from antiphon.layers.linear import Linear
from antiphon.layers.module import Module
from antiphon.weights.source import Source

NORM_EPS = 1e-5
SLOPE = 0.2
HALF_POWER = 0.5**0.5


class StyleGain(Module):
    """A style [B, S] → (scale, shift), each [B, channels]."""

    def __init__(self, source: Source, style: int, channels: int) -> None:
        self.fc = Linear(source, "fc", style, 2 * channels, bias=True)
        assert self.fc.bias is not None
        self.fc.bias[:channels] += 1.0  # the scale is 1 + the layer's output
        self.channels = channels

    def __call__(self, style: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = self.fc(style).split(self.channels, dim=-1)
        return scale, shift


class StyleNorm(Module):
    """An instance norm with scale and shift from the style, and the activation after it; in 16 bits if `half`."""

    def __init__(self, source: Source, style: int, channels: int, alpha: Tensor | None = None) -> None:
        self.gain = StyleGain(source, style, channels)
        self.alpha = alpha

    def __call__(self, x: Tensor, style: Tensor, lengths: Tensor, half: bool = False) -> Tensor:
        scale, shift = self.gain(style)
        slope = SLOPE if self.alpha is None else None
        return ops.adaptive_norm(x, lengths, scale, shift, NORM_EPS, slope, self.alpha, half)


class StyleBlock(Module):
    """(convolutions of the normed input + the input) / √2; `upsample` doubles the number of frames."""

    def __init__(
        self, source: Source, shortcut: Source, inputs: int, outputs: int, style: int, upsample: bool = False
    ) -> None:
        self.norm1 = StyleNorm(source.at("norm1"), style, inputs)
        self.norm2 = StyleNorm(source.at("norm2"), style, outputs)
        self.conv1 = Convolution(source, "conv1", inputs, outputs, 3)
        self.conv2 = Convolution(source, "conv2", outputs, outputs, 3)
        self.pool = TransposedConvolution(source, "pool", inputs, inputs, 3, 2, groups=inputs) if upsample else None
        different = inputs != outputs
        self.shortcut = Convolution(shortcut, "conv1x1", inputs, outputs, 1, bias=False) if different else None

    def __call__(self, x: Tensor, style: Tensor, lengths: Tensor) -> Tensor:
        y = self.norm1(x, style, lengths, self.conv1.half and self.pool is None)
        if self.pool is not None:
            lengths = lengths * 2
            y = ops.mask_frames(self.pool(y), lengths)
            x = ops.repeat_frames(x, 2)
        y = self.conv2(self.norm2(self.conv1(y), style, lengths, self.conv2.half))
        return ops.add(y, x if self.shortcut is None else self.shortcut(x), HALF_POWER)


class SnakeBlock(Module):
    """Three residual steps of dilated convolutions with the snake activation."""

    def __init__(self, source: Source, channels: int, width: int, dilations: Sequence[int], style: int) -> None:
        steps = range(len(dilations))
        self.norms1 = [self._norm(source, 1, step, channels, style) for step in steps]
        self.norms2 = [self._norm(source, 2, step, channels, style) for step in steps]
        self.convs1 = [
            Convolution(source, f"convs1.{step}", channels, channels, width, dilation=dilations[step]) for step in steps
        ]
        self.convs2 = [Convolution(source, f"convs2.{step}", channels, channels, width) for step in steps]
        for norms, convs in ((self.norms1, self.convs1), (self.norms2, self.convs2)):
            for norm, conv in zip(norms, convs, strict=True):
                assert norm.alpha is not None
                # The norm returns alpha times the activation, so the convolution's input channels are divided by alpha.
                conv.weight = conv.weight / norm.alpha[None, :, None]

    @staticmethod
    def _norm(source: Source, which: int, step: int, channels: int, style: int) -> StyleNorm:
        alpha = source.tensor(f"alpha{which}.{step}", (1, channels, 1)).view(channels)
        return StyleNorm(source.at(f"adain{which}", step), style, channels, alpha)

    def __call__(self, x: Tensor, style: Tensor, lengths: Tensor) -> Tensor:
        for norm1, conv1, norm2, conv2 in zip(self.norms1, self.convs1, self.norms2, self.convs2, strict=True):
            y = conv1(norm1(x, style, lengths, conv1.half))
            x = conv2(norm2(y, style, lengths, conv2.half), residual=x)
        return x
