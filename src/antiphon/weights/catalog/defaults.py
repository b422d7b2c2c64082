"""Default models: what a command or a server uses if no model is named."""

from __future__ import annotations

CHAT_MODEL = "qwen2.5-coder-0.5b"
EMBEDDING_MODEL = "all-minilm-l6-v2"
TRANSCRIPTION_MODEL = "whisper-base.en"
SPEECH_MODEL = "hibari-6m"

#: Default model by the engine's task.
DEFAULT_MODELS = {
    "generate": CHAT_MODEL,
    "embed": EMBEDDING_MODEL,
    "transcribe": TRANSCRIPTION_MODEL,
    "synthesize": SPEECH_MODEL,
}
