"""`Downmix`: the mean of all channels, with channels of opposite phase inverted so that they do not cancel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.samples import Floats

#: Seconds of a block, after which the correlation of the channels is estimated anew.
BLOCK_SECONDS = 0.1
#: Weight of the earlier blocks' energy relative to the current block's.
MEMORY = 0.8
#: Correlations with the loudest channel below which a channel is inverted, and above which it is restored.
OPPOSITE, ALIKE = -0.7, -0.3
#: Seconds over which a channel changes its sign, to avoid a click.
FADE_SECONDS = 0.02


class Downmix:
    """Downmix of one stream. The output does not depend on how the sound is divided into chunks.

    Without opposite channels it is exactly the mean. At most one block is buffered.
    """

    def __init__(self, channels: int, rate: int) -> None:
        self._channels = channels
        self._block = max(1, round(BLOCK_SECONDS * rate))
        fade = min(self._block, max(1, round(FADE_SECONDS * rate)))
        self._ramp = np.ones(self._block, np.float32)
        self._ramp[:fade] = np.linspace(0.0, 1.0, fade, endpoint=False, dtype=np.float32)
        self._signs = np.ones(channels, np.float32)
        self._products = np.zeros((channels, channels))
        self._rest: Floats = np.zeros((channels, 0), np.float32)

    def push(self, frames: Floats) -> Floats:
        """Mix samples [channels, n] to mono, and return the blocks that they complete."""
        if self._channels == 1:
            return frames[0]
        joined = np.concatenate([self._rest, frames], axis=1) if self._rest.size else frames
        whole = joined.shape[1] - joined.shape[1] % self._block
        self._rest = joined[:, whole:].copy()
        return self._mixed(joined[:, :whole])

    def finish(self) -> Floats:
        """Return the buffered rest."""
        rest, self._rest = self._rest, self._rest[:, :0]
        return self._mixed(rest)

    def _mixed(self, frames: Floats) -> Floats:
        mono: Floats = frames.mean(axis=0, dtype=np.float32)
        for start in range(0, frames.shape[1], self._block):
            block = frames[:, start : start + self._block]
            before = self._signs
            self._signs = self._judged(block)
            if (before > 0).all() and (self._signs > 0).all():
                continue
            after = (block * self._signs[:, None]).mean(axis=0, dtype=np.float32)
            if not np.array_equal(before, self._signs):
                ramp = self._ramp[: block.shape[1]]
                after = ramp * after + (1 - ramp) * (block * before[:, None]).mean(axis=0, dtype=np.float32)
            mono[start : start + self._block] = after
        return mono

    def _judged(self, block: Floats) -> NDArray[np.float32]:
        """Return the sign of each channel after a block; where the sound gives no evidence, the previous signs."""
        with np.errstate(invalid="ignore", over="ignore"):  # the caller rejects values that are not finite
            level = block - block.mean(axis=1, keepdims=True)  # a constant offset of a channel is inaudible
            self._products = MEMORY * self._products + (level @ level.T).astype(np.float64)
        energy = np.diagonal(self._products)
        loudest = int(np.argmax(energy))
        if not np.isfinite(self._products).all():
            self._products[:] = 0.0
            return self._signs
        scale = np.sqrt(energy * energy[loudest])
        correlation = np.divide(self._products[loudest], scale, out=np.zeros(self._channels), where=scale > 0)
        relative = self._signs * self._signs[loudest]
        signs = np.where(correlation < np.where(relative < 0, ALIKE, OPPOSITE), -1.0, 1.0).astype(np.float32)
        # Inverting all channels is inaudible, so keep as many signs as possible.
        return -signs if float(signs @ (self._signs * energy)) < 0 else signs
