"""Response headers that list characters that cannot be read aloud, for responses that are sound only."""

from __future__ import annotations

from urllib.parse import quote

from antiphon.audio.speech.unreadable import unreadable_in_english
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.server.serving.models import ReadyModel

UNREADABLE_HEADERS = ("x-antiphon-unreadable-characters", "x-antiphon-unreadable")
#: Maximum length of the list: some servers and proxies accept only 4 KiB of headers.
MAX_HEADER_LENGTH = 1500


def unreadable_headers(model: ReadyModel, text: str, options: SpeechOptions) -> dict[str, str]:
    """Return the number of unreadable characters and their runs, percent-encoded and separated by commas.

    Empty if everything can be read, and for languages other than English, where this is not known beforehand.
    """
    if not _is_english(model, options):
        return {}
    found = unreadable_in_english(text, {word.lower() for word in options.pronunciations})
    if not found.num_characters:
        return {}
    runs = ""
    for run in found.runs:
        longer = f"{runs},{quote(run, safe='')}".lstrip(",")
        if len(longer) > MAX_HEADER_LENGTH:
            break
        runs = longer
    return dict(zip(UNREADABLE_HEADERS, (str(found.num_characters), runs), strict=True))


def _is_english(model: ReadyModel, options: SpeechOptions) -> bool:
    voice = options.voice or model.loaded.default_voice or ""
    name = voice.partition("+")[0].partition(":")[0].strip()
    languages = {known.name: known.language for known in model.loaded.voices}
    return (options.language or languages.get(name, "en")).lower()[:2] == "en"
