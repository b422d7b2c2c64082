"""`WyomingSoundInput`: converts a client's sound of any rate, width and channels to mono at 16 kHz."""

from __future__ import annotations

import numpy as np

from antiphon.audio.downmix import Downmix
from antiphon.audio.pcm import to_floats
from antiphon.audio.resample import Resampler
from antiphon.audio.samples import SPEECH_RATE, Encoding, Floats
from antiphon.server.apis.wyoming.events import SoundFormat

ENCODINGS: dict[int, Encoding] = {1: "u8", 2: "s16le", 3: "s24le", 4: "s32le"}


class WyomingSoundInput:
    """Converter whose samples do not depend on the division into chunks. A new format ends the previous sound."""

    def __init__(self) -> None:
        self._format: SoundFormat | None = None
        self._mix: Downmix | None = None
        self._resampler: Resampler | None = None
        self._rest = b""

    def push(self, data: bytes, format: SoundFormat) -> Floats:
        ended = np.zeros(0, np.float32)
        if format != self._format or self._resampler is None or self._mix is None:
            ended = self.finish()
            self._format, self._resampler = format, Resampler(format.rate, SPEECH_RATE)
            self._mix = Downmix(format.channels, format.rate)
        data = self._rest + data
        frame = format.width * format.channels
        whole = len(data) - len(data) % frame
        self._rest = data[whole:]
        samples = to_floats(memoryview(data)[:whole], ENCODINGS[format.width])
        made = self._resampler.push(self._mix.push(samples.reshape(-1, format.channels).T))
        return np.concatenate([ended, made]) if len(ended) else made

    def finish(self) -> Floats:
        """Return the remaining samples; bytes of an incomplete sample are dropped."""
        mix, self._mix = self._mix, None
        resampler, self._resampler, self._rest = self._resampler, None, b""
        if mix is None or resampler is None:
            return np.zeros(0, np.float32)
        return np.concatenate([resampler.push(mix.finish()), resampler.finish()])
