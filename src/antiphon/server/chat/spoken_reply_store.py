"""What replies that were spoken said, for chats that refer back to them by the sound's id."""

from __future__ import annotations

import time
from collections import OrderedDict

#: How long a sound can be referred to, and how many can.
KEPT_SECONDS = 3600.0
KEPT_SOUNDS = 1024


class SoundStore:
    """Transcripts by id, each for the API key that it was made for; the oldest go first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, int | None, str]] = OrderedDict()

    def put(self, sound_id: str, key: int | None, transcript: str) -> None:
        self._kept[sound_id] = (time.monotonic() + KEPT_SECONDS, key, transcript)
        while len(self._kept) > KEPT_SOUNDS:
            self._kept.popitem(last=False)

    def get(self, sound_id: str, key: int | None) -> str | None:
        expires, owner, transcript = self._kept.get(sound_id, (0.0, None, ""))
        return transcript if owner == key and time.monotonic() < expires else None
