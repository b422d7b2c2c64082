"""`SpokenReplyStore`: the text of spoken replies, for later chats that refer to a reply by its audio id."""

from __future__ import annotations

import time
from collections import OrderedDict

from fastapi import Request

#: Maximum seconds that a reply is kept, and number of replies.
KEPT_SECONDS = 3600.0
KEPT_REPLIES = 1024


class SpokenReplyStore:
    """Transcripts by audio id, each found only with the API key that made it. The oldest are removed first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, int | None, str]] = OrderedDict()

    def put(self, audio_id: str, key: int | None, transcript: str) -> None:
        self._kept[audio_id] = (time.monotonic() + KEPT_SECONDS, key, transcript)
        while len(self._kept) > KEPT_REPLIES:
            self._kept.popitem(last=False)

    def get(self, audio_id: str, key: int | None) -> str | None:
        expires, owner, transcript = self._kept.get(audio_id, (0.0, None, ""))
        return transcript if owner == key and time.monotonic() < expires else None


def spoken_replies_of(request: Request) -> SpokenReplyStore:
    store: SpokenReplyStore = request.app.state.spoken_replies
    return store
