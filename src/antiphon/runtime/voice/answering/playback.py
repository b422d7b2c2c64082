"""`Playback`: the part of a spoken message that a listener has heard, by the words' times."""

from __future__ import annotations

from antiphon.audio.speech.words import clean_with_ends
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.voice.answering.listener import Listener


class Playback:
    """The sound of one message. Times are seconds of the session's clock, positions seconds of the message.

    The listener plays the sound after all earlier sound, until the client reports how much it played (`truncate`).
    """

    def __init__(self, listener: Listener) -> None:
        self.text = ""
        #: Seconds of sound sent.
        self.seconds = 0.0
        self._listener = listener
        self._words: list[tuple[float, int]] = []  # middle of each word in the sound, and its end in the text
        self._num_located = 0  # characters of the cleaned text whose sound was sent
        self._ends_at = 0.0  # when the listener will have heard all sound sent
        self._is_complete = False
        self._heard: float | None = None  # position at which playing stopped

    def write(self, text: str) -> None:
        self.text += text

    def send(self, chunk: SpeechChunk, now: float) -> float:
        """Record sound that is sent after its text was written; return the seconds until the listener hears it."""
        wait = self._listener.play(chunk.seconds, now)
        self._ends_at = now + wait + chunk.seconds
        self._locate(chunk)
        self.seconds += chunk.seconds
        return wait

    def _locate(self, chunk: SpeechChunk) -> None:
        """Locate the chunk's words in the text. A word that is missing there ends where the last one did."""
        text, ends = clean_with_ends(self.text)
        start = text.find(chunk.text, self._num_located) if chunk.text else -1
        position, limit = (self._num_located, len(text)) if start < 0 else (start, start + len(chunk.text))
        moved = self.seconds - chunk.start  # a message may be spoken in several syntheses
        for word in chunk.words:
            found = text.find(word.text, position, limit)
            if found >= 0:
                position = found + len(word.text)
            self._words.append(((word.start + word.end) / 2 + moved, ends[position - 1] if position else 0))
        self._num_located = position if start < 0 else limit

    def complete(self) -> None:
        """Declare that all sound was sent."""
        self._is_complete = True

    def remaining(self, now: float) -> float:
        """Return the seconds of sound sent and not heard yet."""
        return 0.0 if self._heard is not None else min(self.seconds, max(0.0, self._ends_at - now))

    def is_playing(self, now: float) -> bool:
        return self.remaining(now) > 0

    def stop(self, now: float) -> None:
        """Stop playing now, unless stopped already."""
        if self._heard is None:
            self._heard = self.seconds - self.remaining(now)

    def truncate(self, seconds: float) -> None:
        """Set the seconds of sound that the client played."""
        self._heard = seconds

    @property
    def heard_text(self) -> str:
        """Text up to where playing stopped; if it did not, the text of all sound sent."""
        heard = self.seconds if self._heard is None else self._heard
        if self._is_complete and heard >= self.seconds:
            return self.text
        return self.text[: self._text_end(heard)]

    def _text_end(self, seconds: float) -> int:
        """Return the text index after the last word that was mostly heard, including punctuation after it."""
        end = 0
        for middle, word_end in self._words:
            if middle > seconds:
                break
            end = word_end
        while 0 < end < len(self.text) and not (self.text[end].isalnum() or self.text[end].isspace()):
            end += 1
        return end
