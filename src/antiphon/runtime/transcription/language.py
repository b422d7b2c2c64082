"""The language of a transcription, as far as it is known before any sound is heard."""

from __future__ import annotations

from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.text.tokenization.whisper_tokens import WhisperTokens


def language_of(options: TranscriptionOptions, tokens: WhisperTokens, model: str) -> str | None:
    """Return the code of the language, or None if the model has to detect it.

    Raise InvalidRequestError if the model does not know the language, or cannot translate.
    """
    if options.translate and not tokens.is_multilingual:
        raise InvalidRequestError(f"model {model!r} knows only English: it cannot translate")
    language = None if options.language is None else tokens.known_language(options.language)
    return language if tokens.is_multilingual else "en"
