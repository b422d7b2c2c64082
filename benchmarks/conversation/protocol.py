"""Settings shared by all conversations, fixed before the first measurement; see `benchmarks/voice.py`."""

from __future__ import annotations

from typing import Any

CHAT_MODEL, VOICE_MODEL = "qwen2.5-coder-0.5b", "hibari-6m"
INSTRUCTIONS = "You are a helpful voice assistant. Answer in one or two short sentences."
MAX_TOKENS = 60
VOICE = "alloy"
#: Sample rate on the wire, in both directions.
WIRE_RATE = 24_000
#: Seconds of sound per chunk, sent when its last sample has been spoken.
PIECE_SECONDS = 0.02
#: Seconds of silence in the room before a person speaks.
LEAD_SECONDS = 1.0
#: Minimum amplitude that counts as sound: 40 dB below full scale.
SOUND_LEVEL = 0.01
#: Milliseconds after its end, by the server's clock, before which a turn was decided at the first look. The second look
#: is at 512 ms of silence.
FIRST_LOOK_MS = 512
#: Seconds between an answer's first sound and its interruption, and seconds of sound that must be left then.
INTERRUPT_AFTER, INTERRUPT_LEFT = 1.0, 1.0
NUM_INTERRUPTIONS = 10
NUM_SESSIONS = 4
#: Seconds between the starts of concurrent sessions.
STAGGER_SECONDS = 0.5
#: Maximum lateness of sound, in seconds, that a listener does not hear as a gap.
GAP_SECONDS = 0.02
#: Timeout in seconds for the answer to a turn.
TURN_TIMEOUT = 60.0


def session(transcription_model: str) -> dict[str, Any]:
    """Return the settings of `session.update`."""
    return {
        "type": "realtime",
        "instructions": INSTRUCTIONS,
        "max_output_tokens": MAX_TOKENS,
        "temperature": 0,
        "audio": {
            "input": {
                "transcription": {"model": transcription_model},
                "turn_detection": {"type": "semantic_vad"},
            },
            "output": {"voice": VOICE},
        },
    }
