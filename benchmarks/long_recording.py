"""Transcribe a long recording with pauses, music and noise; count word errors and impossible word times.

    python benchmarks/long_recording.py [--seconds 1200] [--model whisper-base.en] [--quantize int8]
                                        [--save FILE] [--sound FILE]

`support/sound/programme.py` joins clips of packages and sentences in Kokoro's voices (`trimmed_clips` and
`kokoro_clips`). Printed are the real-time factor and the word error rate without and with word times, the longest word,
and the number of words that are longer than 2 s, go backwards, have no length, or lie more than half a second outside
their clip. The exit status is 1 if a word is longer than 2 s, goes backwards or has no length. `--save` writes the
recording with its words to an .npz file, and `--sound` reads such a file, so that several versions transcribe the same
recording.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from antiphon import Engine
from antiphon.audio.resample import resample
from antiphon.evaluation.round_trip import sample_sentences
from antiphon.runtime.calls.transcript import Transcript
from support.sound.programme import Programme, Utterance, programme
from support.sound.sounds import Floats
from support.sound.speech import RATE, trimmed_clips

LONGEST_WORD = 2.0
VOICES = [
    "af_heart", "am_michael", "bf_emma", "bm_george", "af_bella", "am_fenrir", "bf_isabella", "bm_fable", "af_nicole",
    "am_puck",
]  # fmt: skip


def kokoro_clips() -> list[tuple[Floats, str]]:
    """Synthesize the round trip's sentences, three to a clip, each clip in another voice."""
    sentences = sample_sentences()
    clips = []
    with Engine("kokoro-82m") as engine:
        for index, start in enumerate(range(0, len(sentences), 3)):
            text = " ".join(sentences[start : start + 3])
            with engine.speak(text, voice=VOICES[index % len(VOICES)]) as synthesis:
                clips.append((resample(synthesis.wait(), synthesis.rate, RATE), text))
    return clips


def kept(path: Path) -> Programme:
    with np.load(path) as file:
        times, texts = file["times"].tolist(), file["texts"].tolist()
        samples = file["samples"].astype(np.float32) / 32_767
    return Programme(samples, tuple(Utterance(*time, text) for time, text in zip(times, texts, strict=True)))


def keep(path: Path, made: Programme) -> None:
    times = [(spoken.start, spoken.end) for spoken in made.utterances]
    samples = np.rint(made.samples * 32_767).astype(np.int16)
    np.savez_compressed(path, samples=samples, times=times, texts=[spoken.text for spoken in made.utterances])


def report(made: Programme, transcript: Transcript) -> bool:
    """Print statistics of the word times; return whether all are possible."""
    words = transcript.words
    lengths = [word.end - word.start for word in words]
    too_long = sum(length > LONGEST_WORD for length in lengths)
    backwards = sum(after.start < before.end for before, after in pairwise(words))
    empty = sum(length <= 0 for length in lengths)
    outside = sum(
        not any(word.start >= spoken.start - 0.5 and word.end <= spoken.end + 0.5 for spoken in made.utterances)
        for word in words
    )
    print(
        f"{len(words)} words, the longest {max(lengths):.2f} s: {too_long} longer than {LONGEST_WORD:g} s, "
        f"{backwards} begin before the last one ends, {empty} without a length, {outside} outside their clip"
    )
    cues = transcript.segments
    print(
        f"{len(cues)} segments, the longest {max(cue.end - cue.start for cue in cues):.2f} s, "
        f"{sum(after.start < before.end for before, after in pairwise(cues))} begin before the last one ends"
    )
    return not (too_long or backwards or empty)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="whisper-base.en")
    parser.add_argument("--quantize", choices=("int8", "q4", "none"), default="int8")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--sound", type=Path)
    arguments = parser.parse_args()
    clips = [] if arguments.sound else [*trimmed_clips(), *kokoro_clips()]
    made = kept(arguments.sound) if arguments.sound else programme(arguments.seconds, clips, arguments.seed)
    if arguments.save:
        keep(arguments.save, made)
    seconds = len(made.samples) / RATE
    spoken = sum(spoken.end - spoken.start for spoken in made.utterances)
    print(f"{seconds:.0f} s, {spoken:.0f} of them clips with {len(made.text.split())} words, {arguments.model}")
    quantize = None if arguments.quantize == "none" else arguments.quantize
    with Engine(arguments.model, kv_bytes=512 << 20, quantize=quantize) as engine:
        engine.transcribe(made.samples[: 20 * RATE], language="en")
        for words in (False, True):
            began = time.perf_counter()
            transcript = engine.transcribe(made.samples, language="en", words=words)
            factor = (time.perf_counter() - began) / seconds
            kind = "with words" if words else "without words"
            print(f"{kind}: real-time factor {factor:.4f}, WER {made.errors(transcript.text):.2%}")
    sys.exit(not report(made, transcript))


if __name__ == "__main__":
    main()
