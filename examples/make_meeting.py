"""Make meeting.m4a: Kokoro reads a dialogue of two people, encoded as AAC. Run `python examples/make_meeting.py`."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np

from antiphon import Engine

OUTPUT = Path(__file__).with_name("meeting.m4a")
PAUSE_SECONDS = 0.35
BITS_PER_SECOND = 48_000
ANNA, BEN = "bf_emma", "am_michael"
DIALOGUE = (
    (ANNA, "Good morning, Ben. Let us talk about the concert in December."),
    (BEN, "Good morning. The church is free on the twelfth, and it has two hundred seats."),
    (ANNA, "Wonderful. Do we have enough singers for two choirs?"),
    (BEN, "Almost. We have twenty-six voices, and we need four more basses."),
    (ANNA, "Then I will ask the students at the college this week."),
    (BEN, "Thank you. I will print the tickets, and we meet again on Friday at five."),
)


def main() -> None:
    parts = []
    with Engine("kokoro-82m") as engine:
        for voice, text in DIALOGUE:
            speech = engine.speak(text, voice=voice)
            parts += [speech.wait(), np.zeros(round(PAUSE_SECONDS * speech.rate), np.float32)]
        rate = speech.rate
    with av.open(str(OUTPUT), "w") as container:
        stream = container.add_stream("aac", rate=rate, layout="mono", bit_rate=BITS_PER_SECOND)
        frame = av.AudioFrame.from_ndarray(np.concatenate(parts)[None], format="fltp", layout="mono")
        frame.sample_rate = rate
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    print(f"{OUTPUT.name}: {sum(map(len, parts)) / rate:.1f} s, {OUTPUT.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
