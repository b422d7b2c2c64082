"""What every conversation has in common. Fixed before the first measurement; see `benchmarks/voice.py`."""

from __future__ import annotations

from typing import Any

CHAT_MODEL, VOICE_MODEL = "qwen2.5-coder-0.5b", "hibari-6m"
INSTRUCTIONS = "You are a helpful voice assistant. Answer in one or two short sentences."
MAX_TOKENS = 60
VOICE = "alloy"
#: Of the wire, in both directions.
WIRE_RATE = 24_000
#: Sound is sent in pieces of so many seconds, each when its last sample has been spoken.
PIECE_SECONDS = 0.02
#: Seconds of silence in the room before somebody speaks.
LEAD_SECONDS = 1.0
#: A sample from here on is sound: 40 dB under full scale.
SOUND_LEVEL = 0.01
#: A turn that was decided so soon after its end, in the server's own milliseconds, was complete at the first look. The
#: second is at 512 ms of silence.
FIRST_LOOK_MS = 512
#: An answer is interrupted so many seconds after its first sound, if as much of it is still to come.
INTERRUPT_AFTER, INTERRUPT_LEFT = 1.0, 1.0
NUM_INTERRUPTIONS = 10
NUM_SESSIONS = 4
#: Seconds between the beginnings of sessions that are held at once.
STAGGER_SECONDS = 0.5
#: A listener hears a gap if sound comes so many seconds too late.
GAP_SECONDS = 0.02
#: Seconds in which a turn must have been answered.
TURN_TIMEOUT = 60.0


def session(transcription_model: str) -> dict[str, Any]:
    """The settings of `session.update`."""
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
