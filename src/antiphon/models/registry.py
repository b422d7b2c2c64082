"""Which file implements which architecture. A new architecture is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from antiphon.errors import UnsupportedError
from antiphon.models.base.model import Model
from antiphon.weights.checkpoint import Checkpoint

#: GGUF's `general.architecture` and Hugging Face's `model_type` → module below `antiphon.models` and class.
ARCHITECTURES = {
    "bert": ("bert", "Bert"),
    "gemma3": ("gemma3", "Gemma3"),
    "gemma3_text": ("gemma3", "Gemma3"),
    "gpt2": ("gpt2", "GPT2"),
    "hibari": ("hibari", "Hibari"),
    "kokoro": ("kokoro.model", "Kokoro"),
    "letter-to-sound": ("letter_to_sound", "LetterToSound"),
    "llama": ("llama", "Llama"),
    "mistral": ("llama", "Llama"),
    "qwen2": ("qwen2", "Qwen2"),
    "qwen3": ("qwen3", "Qwen3"),
    "silero-vad": ("silero_vad", "SileroVAD"),
    "smart-turn": ("smart_turn", "SmartTurn"),
    "whisper": ("whisper", "Whisper"),
}


def model_class(architecture: str) -> type[Model]:
    entry = ARCHITECTURES.get(architecture)
    if entry is None:
        raise UnsupportedError(f"architecture {architecture!r} is not supported; known: {', '.join(ARCHITECTURES)}")
    module, name = entry
    cls: type[Model] = getattr(import_module(f"antiphon.models.{module}"), name)
    return cls


def build_model(checkpoint: Checkpoint) -> Model:
    """The model of a checkpoint, with every tensor taken; errors name what is missing, misshaped or unknown."""
    return model_class(checkpoint.architecture).from_checkpoint(checkpoint)
