"""`WhisperTokens`: the special ids of Whisper's vocabularies, which all follow from the vocabulary's size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from antiphon.errors import InvalidRequestError, UnsupportedError

#: Language codes in the order of their tokens. The hundredth, Cantonese, came with large-v3.
LANGUAGES = [
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca", "nl", "ar", "sv", "it", "id", "hi", "fi",
    "vi", "he", "uk", "el", "ms", "cs", "ro", "da", "hu", "ta", "no", "th", "ur", "hr", "bg", "lt", "la", "mi", "ml",
    "cy", "sk", "te", "fa", "lv", "bn", "sr", "az", "sl", "kn", "et", "mk", "br", "eu", "is", "hy", "ne", "mn", "bs",
    "kk", "sq", "sw", "gl", "mr", "pa", "si", "km", "sn", "yo", "so", "af", "oc", "ka", "be", "tg", "sd", "gu", "am",
    "yi", "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt", "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln",
    "ha", "ba", "jw", "su", "yue",
]  # fmt: skip

LANGUAGE_NAMES = [
    "english", "chinese", "german", "spanish", "russian", "korean", "french", "japanese", "portuguese", "turkish",
    "polish", "catalan", "dutch", "arabic", "swedish", "italian", "indonesian", "hindi", "finnish", "vietnamese",
    "hebrew", "ukrainian", "greek", "malay", "czech", "romanian", "danish", "hungarian", "tamil", "norwegian", "thai",
    "urdu", "croatian", "bulgarian", "lithuanian", "latin", "maori", "malayalam", "welsh", "slovak", "telugu",
    "persian", "latvian", "bengali", "serbian", "azerbaijani", "slovenian", "kannada", "estonian", "macedonian",
    "breton", "basque", "icelandic", "armenian", "nepali", "mongolian", "bosnian", "kazakh", "albanian", "swahili",
    "galician", "marathi", "punjabi", "sinhala", "khmer", "shona", "yoruba", "somali", "afrikaans", "occitan",
    "georgian", "belarusian", "tajik", "sindhi", "gujarati", "amharic", "yiddish", "lao", "uzbek", "faroese",
    "haitian-creole", "pashto", "turkmen", "nynorsk", "maltese", "sanskrit", "luxembourgish", "myanmar", "tibetan",
    "tagalog",
    "malagasy", "assamese", "tatar", "hawaiian", "lingala", "hausa", "bashkir", "javanese", "sundanese", "cantonese",
]  # fmt: skip

#: Other codes in use, and Whisper's own for each.
ALIASES = {"jv": "jw", "iw": "he", "nb": "no", "fil": "tl", "haitian": "ht", "mandarin": "zh", "castilian": "es"}

#: Number of timestamp tokens: 0.00 to 30.00 s in steps of 20 ms.
NUM_TIMESTAMPS = 1501
TIMESTAMP_SECONDS = 0.02
#: Text tokens in an English-only vocabulary; a multilingual one has one more.
ENGLISH_TEXT_TOKENS = 50256
#: Number of tasks and marks between the languages and the timestamps.
NUM_MARKS = 6


@dataclass(frozen=True)
class WhisperTokens:
    """Special ids in the order of the vocabulary: text, end, start, languages, tasks and marks, timestamps."""

    vocab_size: int
    is_multilingual: bool
    num_languages: int

    @classmethod
    def of_vocabulary(cls, vocab_size: int) -> WhisperTokens:
        """Return the layout of a vocabulary of this size; reject sizes that no Whisper model has."""
        base = ENGLISH_TEXT_TOKENS + 2 + NUM_MARKS + NUM_TIMESTAMPS
        is_multilingual = vocab_size >= base + 100
        num_languages = vocab_size - base - is_multilingual
        if num_languages not in (len(LANGUAGES) - 1, len(LANGUAGES)):
            raise UnsupportedError(f"a vocabulary of {vocab_size} tokens is not one of Whisper's")
        return cls(vocab_size, is_multilingual, num_languages)

    @property
    def end(self) -> int:
        return ENGLISH_TEXT_TOKENS + self.is_multilingual

    @property
    def start(self) -> int:
        return self.end + 1

    @property
    def first_language(self) -> int:
        return self.start + 1

    @property
    def translate(self) -> int:
        return self.first_language + self.num_languages

    @property
    def transcribe(self) -> int:
        return self.translate + 1

    @property
    def start_of_model(self) -> int:
        return self.translate + 2

    @property
    def start_of_previous(self) -> int:
        return self.translate + 3

    @property
    def no_speech(self) -> int:
        return self.translate + 4

    @property
    def no_timestamps(self) -> int:
        return self.translate + 5

    @property
    def first_timestamp(self) -> int:
        return self.translate + 6

    @property
    def languages(self) -> range:
        return range(self.first_language, self.translate)

    def seconds(self, token: int) -> float:
        return (token - self.first_timestamp) * TIMESTAMP_SECONDS

    def is_timestamp(self, token: int) -> bool:
        return token >= self.first_timestamp

    def language_code(self, token: int) -> str:
        return LANGUAGES[token - self.first_language]

    def language_id(self, language: str) -> int:
        """Return the token of a language given by code or English name; reject a language unknown to the model."""
        return self.first_language + LANGUAGES.index(self.known_language(language))

    def known_language(self, language: str) -> str:
        """Return the code of a language given by code or English name; reject a language unknown to the model."""
        wanted = language.strip().lower().replace(" ", "-").replace("_", "-")
        named = dict(zip(LANGUAGE_NAMES, LANGUAGES, strict=True))
        code = ALIASES.get(wanted) or named.get(wanted) or wanted
        if code not in LANGUAGES and "-" in code:
            code = code.split("-")[0]  # a regional code such as en-GB
            code = ALIASES.get(code, code)
        if code not in LANGUAGES[: self.num_languages]:
            raise InvalidRequestError(
                f"language {language!r} is not one of this model's: {', '.join(LANGUAGES[: self.num_languages])}"
            )
        if not self.is_multilingual and code != "en":
            raise InvalidRequestError(f"language {language!r} was asked of a model that knows only English")
        return code

    @cached_property
    def spellings(self) -> dict[int, str]:
        """Spellings by id of all tokens after the text tokens."""
        marks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
        names = ["endoftext", "startoftranscript", *LANGUAGES[: self.num_languages], *marks]
        names += [f"{index * TIMESTAMP_SECONDS:.2f}" for index in range(NUM_TIMESTAMPS)]
        return {self.end + index: f"<|{name}|>" for index, name in enumerate(names)}


def language_name(code: str) -> str:
    """Return the English name of a language, as OpenAI's API spells it, or the code itself if it is unknown."""
    return LANGUAGE_NAMES[LANGUAGES.index(code)].replace("-", " ") if code in LANGUAGES else code
