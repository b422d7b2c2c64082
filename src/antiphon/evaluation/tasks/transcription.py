"""`wer` and `cer`: error rates of transcribed recordings, in words or characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import ClassVar

from antiphon.errors import AudioError, InvalidRequestError
from antiphon.evaluation.items import Line, read_text
from antiphon.evaluation.metrics.speech import Alignment, align_characters, align_words, normalizer
from antiphon.evaluation.metrics.statistics import ratio_of_sums
from antiphon.evaluation.parallel import in_order
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import EvaluationTask, ItemResult, Metric, TaskOptions, Value
from antiphon.runtime.calls.transcript import Transcript
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.transcription.sound_source import SoundSource

#: Suffixes of files that are recordings.
SUFFIXES = frozenset({".wav", ".flac", ".mp3", ".m4a", ".ogg", ".opus", ".webm"})
#: Kinds of errors.
KINDS = ("substitutions", "deletions", "insertions")


@dataclass(frozen=True)
class ReferenceRecording:
    """Recording with its true text. `language` is a code, or None to detect it. Errors name the `source`."""

    id: str
    path: Path
    text: str
    language: str | None
    source: str


def rate(name: str, count: str, length: str) -> Metric:
    """Return a metric in percent of the reference's words or characters; lower is better."""
    return Metric(name, (count, length), ratio_of_sums, higher_is_better=False, unit="%")


def rates(name: str, unit: str) -> tuple[Metric, ...]:
    """Return the rate of all errors and of each kind; `unit` is "words" or "characters"."""
    return rate(name, f"errors_in_{unit}", unit), *(rate(kind, kind, unit) for kind in KINDS)


def counts(alignment: Alignment, unit: str) -> dict[str, Value]:
    """Return an item's contribution to the rates."""
    kinds = {kind: getattr(alignment, kind) for kind in KINDS}
    return {unit: alignment.length, f"errors_in_{unit}": alignment.errors, **kinds}


class TranscriptionTask(EvaluationTask[ReferenceRecording]):
    """Task that compares transcripts after Whisper's normalisation for the recording's language."""

    model_task = "transcribe"
    fields = (
        "audio (a file, relative to the folder of the data) and text; or a folder of recordings with a .txt beside each"
    )
    unit: ClassVar[str]
    align: ClassVar[Callable[[str, str], Alignment]]

    def __init__(self, options: TaskOptions | None = None) -> None:
        super().__init__(options)
        type(self).align(normalizer()("a"), "a")  # reports a missing package before anything is loaded

    def read(self, data: Path | None) -> list[ReferenceRecording]:
        return self.folder(data) if data is not None and data.is_dir() else super().read(data)

    def item(self, line: Line) -> ReferenceRecording:
        language = line.text("language") if line.has("language") else self.options.language
        path, text = line.path("audio", "file", "path"), line.text("text", "reference")
        return ReferenceRecording(line.id, path, text, language, line.location)

    def folder(self, folder: Path) -> list[ReferenceRecording]:
        """Return every recording of a folder, with its text from the .txt file of the same name."""
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
        if not paths:
            raise InvalidRequestError(f"{folder} has no recordings ({', '.join(sorted(SUFFIXES))})")
        found = []
        for path in paths:
            text = path.with_suffix(".txt")
            if not text.is_file():
                raise InvalidRequestError(f"{path} has no text beside it: there is no file {text.name}")
            found.append(ReferenceRecording(path.name, path, read_text(text).strip(), self.options.language, str(path)))
        return found

    def evaluate(self, subject: Subject, work: Sequence[ReferenceRecording]) -> Iterator[ItemResult]:
        def scored(item: ReferenceRecording, stopped: Event) -> ItemResult:
            try:
                heard = transcribed(subject.engine, item.path, subject.name, item.language, stopped)
            except (AudioError, InvalidRequestError) as error:
                raise type(error)(f"{item.source}: {error}") from error
            normalize = normalizer(heard.language)
            alignment = type(self).align(normalize(item.text), normalize(heard.text))
            return ItemResult(item.id, counts(alignment, self.unit), heard.text.strip())

        return in_order(scored, work)


class WordErrorRate(TranscriptionTask):
    name = "wer"
    summary = "word error rate of transcripts"
    unit = "words"
    align = align_words
    metrics = rates("WER", "words")


class CharacterErrorRate(TranscriptionTask):
    name = "cer"
    summary = "character error rate of transcripts"
    unit = "characters"
    align = align_characters
    metrics = rates("CER", "characters")


def transcribed(engine: Engine, sound: SoundSource, model: str, language: str | None, stopped: Event) -> Transcript:
    """Return the transcript; raise `AudioError` if `stopped` is set before it is complete."""
    with closing(engine.transcribe_events(sound, model=model, language=language)) as events:  # type: ignore[type-var]
        for event in events:
            if isinstance(event, Transcript):
                return event
            if stopped.is_set():
                break
    raise AudioError("the transcription was stopped before its end")
