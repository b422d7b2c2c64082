"""`Playback`: what a listener has heard of a spoken message, by the words' times."""

from __future__ import annotations

from antiphon.runtime.calls.speech import SpeechChunk, TimedWord


class Playback:
    """The sound of one message. Times are seconds of the session's clock, positions seconds of the message's sound.

    A listener is taken to play from the first chunk on and to wait when there is nothing left, until the client says
    what it played (`truncate`).
    """

    def __init__(self) -> None:
        self.text = ""
        #: Of the sound that was sent.
        self.seconds = 0.0
        self._words: list[TimedWord] = []
        self._ends_at = 0.0  # when a listener will have heard all that was sent
        self._is_complete = False
        self._heard: float | None = None  # where playing stopped

    def write(self, text: str) -> None:
        self.text += text

    def send(self, chunk: SpeechChunk, now: float) -> float:
        """Take note of sound that goes out; the seconds until a listener hears it."""
        wait = max(0.0, self._ends_at - now)
        self._ends_at = now + wait + chunk.seconds
        # Words are placed by what was sent, since a message may be spoken in several syntheses.
        moved = self.seconds - chunk.start
        self._words += [TimedWord(word.text, word.start + moved, word.end + moved) for word in chunk.words]
        self.seconds += chunk.seconds
        return wait

    def complete(self) -> None:
        """All the sound was sent."""
        self._is_complete = True

    def remaining(self, now: float) -> float:
        """Seconds of sound that were sent and not heard yet."""
        return 0.0 if self._heard is not None else min(self.seconds, max(0.0, self._ends_at - now))

    def is_playing(self, now: float) -> bool:
        return self.remaining(now) > 0

    def stop(self, now: float) -> None:
        """The listener stops playing here."""
        if self._heard is None:
            self._heard = self.seconds - self.remaining(now)

    def truncate(self, seconds: float) -> None:
        """The client played so much."""
        self._heard = seconds

    @property
    def heard_text(self) -> str:
        """The text up to where playing stopped; all that was sent if it did not."""
        heard = self.seconds if self._heard is None else self._heard
        if self._is_complete and heard >= self.seconds:
            return self.text
        return self.text[: self._text_end(heard)]

    def _text_end(self, seconds: float) -> int:
        """Where the last word that was mostly heard ends in the text, with the marks that follow it."""
        end = 0
        for word in self._words:
            if (word.start + word.end) / 2 > seconds:
                break
            found = self.text.find(word.text, end)
            if found >= 0:
                end = found + len(word.text)
        while 0 < end < len(self.text) and not (self.text[end].isalnum() or self.text[end].isspace()):
            end += 1
        return end
