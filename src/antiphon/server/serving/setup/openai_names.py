"""OpenAI's names of models and the tasks that they stand for: `--alias openai` leads them to the models served."""

from __future__ import annotations

import re

#: Entry of `aliases` that stands for all of these names.
OPENAI = "openai"
SOUND_NAMES = {
    "tts-1": "synthesize",
    "tts-1-hd": "synthesize",
    "gpt-4o-mini-tts": "synthesize",
    "whisper-1": "transcribe",
    "gpt-4o-transcribe": "transcribe",
    "gpt-4o-mini-transcribe": "transcribe",
}
CHAT_NAMES = (
    *("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano", "gpt-4", "gpt-4-turbo", "gpt-3.5-turbo"),
    *("gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5.1", "gpt-5.2", "o1", "o1-mini", "o3", "o3-mini", "o4-mini"),
    *("chatgpt-4o-latest", "gpt-3.5-turbo-instruct", "gpt-audio", "gpt-audio-mini", "gpt-4o-audio-preview"),
    *("gpt-realtime", "gpt-realtime-mini", "gpt-4o-realtime-preview", "gpt-4o-mini-realtime-preview"),
)
EMBEDDING_NAMES = ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")
OPENAI_NAMES = dict.fromkeys(CHAT_NAMES, "generate") | dict.fromkeys(EMBEDDING_NAMES, "embed") | SOUND_NAMES
VERSION = re.compile(r"-\d{4}(-\d{2}-\d{2})?")


def without_version(name: str) -> str:
    """Return a name without the date of its version if OpenAI has it: `gpt-4o` for `gpt-4o-2024-08-06`."""
    for known in OPENAI_NAMES:
        if name.startswith(known) and VERSION.fullmatch(name, len(known)) is not None:
            return known
    return name
