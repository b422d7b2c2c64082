"""`ConversationProgress`: turns and responses in progress, derived from a conversation's events."""

from __future__ import annotations

from antiphon.runtime.voice.events import (
    BufferCommitted,
    ResponseDone,
    ResponseStarted,
    SessionEvent,
    TranscriptDone,
    TranscriptFailed,
    UserSpeechStarted,
    UserSpeechStopped,
)


class ConversationProgress:
    """State of a conversation. `is_idle` is True once everything said so far has been understood and answered."""

    def __init__(self) -> None:
        self._open: set[str] = set()  # turns in progress
        self._committed: set[str] = set()  # ended turns
        self._unheard: set[str] = set()  # ended turns without a transcript so far
        self._answered: set[str] = set()  # turns that a response has begun for
        self._owed: set[str] = set()  # understood turns that wait for a response
        self._responses: set[str] = set()  # in progress
        #: Number of turns with recognised words.
        self.num_turns = 0
        #: Number of ended responses.
        self.num_responses = 0

    @property
    def is_idle(self) -> bool:
        return not (self._open or self._unheard or self._owed or self._responses)

    @property
    def is_answering(self) -> bool:
        return bool(self._responses)

    def is_owed(self, item_id: str) -> bool:
        """Return whether an understood turn still waits for a response."""
        return item_id in self._owed

    def take(self, event: SessionEvent) -> None:
        match event:
            case UserSpeechStarted(item_id, _):
                self._open.add(item_id)
            case UserSpeechStopped(item_id, _):
                self._open.discard(item_id)
            case BufferCommitted(item_id, _):
                self._committed.add(item_id)
                self._unheard.add(item_id)
            case TranscriptDone(item_id, _, text):
                self._unheard.discard(item_id)
                if text.strip():
                    self.num_turns += 1
                    self._owed |= {item_id} - self._answered
            case TranscriptFailed(item_id, _, _):
                self._unheard.discard(item_id)
            case ResponseStarted(response):
                self._responses.add(response.id)
                self._answered |= self._committed
                self._owed.clear()
            case ResponseDone(response):
                self._responses.discard(response.id)
                self.num_responses += 1
