"""Catalog references of the detectors that other models use."""

from __future__ import annotations

VOICE_ACTIVITY = "silero-vad"
END_OF_TURN = "smart-turn"
#: Letter-to-sound networks by accent.
LETTER_TO_SOUND = {"en-us": "english-phonemes:oov.onnx", "en-gb": "english-phonemes:oov_gb.onnx"}
#: Detectors that the models of a task declare as companions, for programs that cannot import the models.
COMPANIONS = {"transcribe": (VOICE_ACTIVITY,), "synthesize": tuple(LETTER_TO_SOUND.values())}
