"""`Speaking`: what the engine for threads offers for speech."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from antiphon.errors import InvalidRequestError
from antiphon.runtime.speech_options import SpeechOptions
from antiphon.runtime.speech_text import Speaker
from antiphon.runtime.synthesis import SpeechPort, Synthesis


class Speaking:
    """A part of `Engine`. Keyword arguments are the fields of `SpeechOptions`."""

    if TYPE_CHECKING:

        def _speaker(self, model: str | None) -> tuple[Speaker, SpeechPort]: ...

    def speak(self, text: str | Iterable[str], *, model: str | None = None, **options: Any) -> Synthesis:
        """Speak a text. The result gives chunks of sound, clause by clause, while the rest is being synthesised.

        The text may be an iterable of strings that are still being written, such as the text of a stream. Options are
        the fields of `SpeechOptions`.
        """
        checked = speech_options(options)
        speaker, port = self._speaker(model)
        return Synthesis(speaker, port, text, checked)


def speech_options(options: dict[str, Any]) -> SpeechOptions:
    """The options by their names; an unknown one is refused."""
    try:
        return SpeechOptions(**options)
    except TypeError as error:
        raise InvalidRequestError(str(error).replace("SpeechOptions.__init__() ", "")) from None
