"""`voice`: sentences spoken by the model and transcribed by another, with the words that were not heard counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Event
from typing import ClassVar

import numpy as np

from antiphon.errors import EngineError, InvalidRequestError
from antiphon.evaluation.items import Line
from antiphon.evaluation.metrics.opinion import dnsmos
from antiphon.evaluation.metrics.speech import align_words, normalizer
from antiphon.evaluation.parallel import in_order
from antiphon.evaluation.round_trip import DEFAULT_JUDGE, SAMPLE, Floats, heard, resampled
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import EvaluationTask, ItemResult, Metric, TaskOptions, Value
from antiphon.evaluation.tasks.transcription import rate
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.loading import load_model
from antiphon.weights.catalog.model_tasks import check_catalog_task

OPINIONS = ("signal", "background", "overall")
#: Bytes of the judge's KV cache.
JUDGE_CACHE = 128 << 20


@dataclass(frozen=True)
class Sentence:
    """Sentence to speak. Errors name the `source`."""

    id: str
    text: str
    source: str


class VoiceRoundTrip(EvaluationTask[Sentence]):
    """Error rates of the judge's transcripts and, if DNSMOS is installed, opinions of the sound from 1 to 5."""

    name = "voice"
    summary = "round-trip word error rate of a voice, and DNSMOS"
    model_task = "synthesize"
    metrics: ClassVar[tuple[Metric, ...]] = (
        rate("WER", "word_errors", "words"),
        rate("CER", "character_errors", "characters"),
    )
    sample = SAMPLE
    fields = "text"

    def __init__(self, options: TaskOptions | None = None) -> None:
        super().__init__(options)
        self.judge = self.options.judge or DEFAULT_JUDGE
        check_catalog_task(self.judge, "transcribe")
        align_words(normalizer()("a"), "a")  # reports a missing package before anything is loaded
        self.has_opinions = find_spec("speechmos") is not None and find_spec("onnxruntime") is not None
        if self.has_opinions:
            opinions = tuple(Metric(f"DNSMOS {name}", (name,)) for name in OPINIONS)
            self.metrics = (*type(self).metrics, *opinions)  # type: ignore[misc]

    def item(self, line: Line) -> Sentence:
        text = line.text("text", "sentence")
        if not text.strip():
            raise line.error("'text' is empty; there is nothing to speak")
        return Sentence(line.id, text, line.location)

    def evaluate(self, subject: Subject, work: Sequence[Sentence]) -> Iterator[ItemResult]:
        loaded = load_model(self.judge, task="transcribe", offline=self.options.offline)
        with Engine(loaded, device=loaded.device.name, kv_bytes=JUDGE_CACHE) as judge:
            yield from in_order(lambda item, stopped: self.scored(subject, judge, item, stopped), work)

    def scored(self, subject: Subject, judge: Engine, item: Sentence, stopped: Event) -> ItemResult:
        try:
            sound = self.spoken(subject, item.text, stopped)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{item.source}: {error}") from error
        found = heard(judge, sound, item.text, language=self.options.language)
        values: dict[str, Value] = {
            "words": found.words.length,
            "word_errors": found.words.errors,
            "characters": found.characters.length,
            "character_errors": found.characters.errors,
        }
        if self.has_opinions:
            opinion = dnsmos(sound)
            values |= {name: float(getattr(opinion, name)) for name in OPINIONS}
        return ItemResult(item.id, values, found.text)

    def spoken(self, subject: Subject, text: str, stopped: Event) -> Floats:
        """Return the spoken sentence as sound at 16 kHz."""
        options = {"voice": self.options.voice, "language": self.options.language}
        with subject.engine.speak(text, model=subject.name, **options) as synthesis:
            pieces = []
            for chunk in synthesis:
                if stopped.is_set():
                    raise EngineError("the synthesis was stopped before its end")
                pieces.append(chunk.samples)
            if not pieces:
                raise InvalidRequestError(f"{text!r} gave no sound")
            return resampled(np.concatenate(pieces), synthesis.rate)
