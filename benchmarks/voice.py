"""Measure a turn of a voice conversation: seconds from the end of speech to the first sound of the answer.

    python benchmarks/voice.py [--transcription-model whisper-base.en] [--rounds 3] [--limit 1500]
                               [--json FILE] [--markdown FILE] [--only turns,interruptions,sessions] [--half held-out]

A server is started with its defaults and a transcription, a chat and a speech model; clients speak recordings to its
`/v1/realtime` in real time. Needs the clips that the tests fetch, and an idle machine.

The protocol, fixed before the first measurement. A figure counts only if all of it was kept.

- Clips are real recorded sentences of four people (`tests/support/sound/recorded_turns.py`), sorted by name. Every
second one is for tuning: sizes and thresholds are chosen by these alone (`--half tuning`). Results are reported for the
others.
- A turn is a session of its own: a second of the room's silence, a clip, then silence. Sound is sent in chunks of 20
ms, each when its last sample has been spoken. All sessions use `semantic_vad`, the same instructions, temperature 0 and
at most 60 tokens (`benchmarks/conversation/protocol.py`).
- The end of speech is that of the clip by annotation and energy (25 dB under the loudest 10 ms), never the server's
own.
- The first sound is the answer's first sample over -40 dBFS, at the moment when a real-time player plays it.
- A turn was complete at the first look if the server decided it within 512 ms of the end that it detected. Turns that
waited longer, and sentences that were split into several turns, are reported separately.
- The sequential pipeline hears the same clip right after the session did. The same detectors with the same rules decide
the end; then the same server transcribes the whole turn, generates the whole answer and speaks all of it, one after the
other. Prompts are the same; equal answers are counted. It comes second, so entries that the first leaves in the
server's prefix cache help the sequential one. Every round has a server of its own, so that no cache outlives a round;
its first turn, of the other half, is not counted.
- Interruptions: ten in all. One second after an answer's first sound, if a second of it is left, another clip is
spoken. Measured is the time from the clip's onset (by energy as above) until the client has received `speech_started`
and stops playing. The client hears no echo.
- Four sessions at once begin half a second after each other; each speaks its next clip when the last answer has been
played. A gap is sound that comes more than 20 ms too late for a player that began with the first chunk.
- Every turn counts. A turn that is not answered within a minute counts as a failure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from conversation import protocol, report
from conversation.scenes import Figures, Stage, measure_crowd, measure_interruptions, measure_turns
from conversation.sequential import SequentialPipeline
from support.server.serve_command import ServeCommand
from support.sound.recorded_turns import Clip, held_out_turns, tuning_turns

KINDS = ("turns", "interruptions", "sessions")


@contextmanager
def server(transcription_model: str) -> Iterator[str]:
    """Yield the address of a server that has loaded its models."""
    command = ServeCommand(protocol.CHAT_MODEL, transcription_model, protocol.VOICE_MODEL, "--port", "0")
    try:
        command.wait_until_ready()
        yield command.url()
    finally:
        command.process.send_signal(signal.SIGTERM)
        command.wait_for_end()


async def measure(arguments: argparse.Namespace, url: str, figures: Figures, number: int) -> None:
    halves: dict[str, tuple[Clip, ...]] = {"held-out": held_out_turns(), "tuning": tuning_turns()}
    clips = halves.pop(arguments.half)
    [others] = halves.values()
    stage = Stage(url, arguments.transcription_model, lambda line: print(line, flush=True))
    sequential = SequentialPipeline(url, arguments.transcription_model)
    try:
        warm = others[0]
        await stage.turn(warm)
        await sequential.turn(warm)
        if "turns" in arguments.only:
            await measure_turns(stage, sequential, clips, figures)
        if "interruptions" in arguments.only:
            share = [protocol.NUM_INTERRUPTIONS // arguments.rounds] * arguments.rounds
            share[0] += protocol.NUM_INTERRUPTIONS - sum(share)
            shift = 2 * number % len(clips)
            await measure_interruptions(stage, clips[shift:] + clips[:shift], share[number], figures)
        if "sessions" in arguments.only:
            await measure_crowd(stage, clips, arguments.turns_each, figures)
    finally:
        await sequential.close()


def run(arguments: argparse.Namespace, figures: Figures) -> None:
    """Run rounds until all are done or the time limit has passed."""

    async def in_time(url: str, number: int, left: float) -> None:
        async with asyncio.timeout(left):
            await measure(arguments, url, figures, number)

    deadline = time.monotonic() + arguments.limit
    for number in range(arguments.rounds):
        left = deadline - time.monotonic()
        print(f"round {number + 1} of {arguments.rounds}", flush=True)
        try:
            with server(arguments.transcription_model) as url:
                asyncio.run(in_time(url, number, left))
        except TimeoutError:
            print(f"the limit of {arguments.limit:.0f} s is reached", flush=True)
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transcription-model", default="whisper-base.en")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns-each", type=int, default=2, help="turns of each of the sessions at once, in a round")
    parser.add_argument("--limit", type=float, default=1500.0, help="seconds, after which what was measured is printed")
    parser.add_argument("--half", choices=("held-out", "tuning"), default="held-out")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(KINDS), metavar=",".join(KINDS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    figures = Figures()
    try:
        run(arguments, figures)
    finally:
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        title = f"{arguments.transcription_model}, {arguments.half} clips, {arguments.rounds} rounds"
        table = report.markdown(title, figures)
        print(f"\n{table}\n\n{platform.machine()}, {os.cpu_count()} cores; load at the end {load}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps({"title": title, **figures.plain()}, indent=1))
        if arguments.markdown:
            arguments.markdown.write_text(table + "\n")


if __name__ == "__main__":
    main()
