"""`voice`: sentences spoken, heard and counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jiwer
import numpy as np
import pytest

from antiphon.errors import InvalidRequestError, UnsupportedError
from antiphon.evaluation.metrics.opinion import WINDOW
from antiphon.evaluation.results import figures
from antiphon.evaluation.round_trip import sample_sentences
from antiphon.evaluation.run import run_task
from antiphon.evaluation.settings import EngineSetting, opened
from antiphon.evaluation.task import TaskOptions
from antiphon.evaluation.tasks import voice
from antiphon.evaluation.tasks.registry import make_task
from antiphon.runtime.loading.loading import load_model

pytestmark = pytest.mark.slow  # openai-whisper, whose normalisers they use, is only there in `make test-all`

RATE = 24_000
HEARD = {"The cat sat on the mat.": "the cat sat on a mat", "Hello there, Peter.": "hello there peter"}


class Synthesis:
    """Sound of a loudness for each sentence, as long as fills one window of DNSMOS when it is repeated."""

    rate = RATE

    def __init__(self, text: str) -> None:
        loudness = 0.1 * (1 + list(HEARD).index(text)) if text in HEARD else 0.0
        self.pieces = [np.full(size, loudness, np.float32) for size in (6000, WINDOW * 3 // 32 - 6000) if loudness]

    def __enter__(self) -> Synthesis:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(SimpleNamespace(samples=piece) for piece in self.pieces)


class Speaker:
    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def speak(self, text: str, *, model: str, **options: Any) -> Synthesis:
        self.asked.append(options)
        return Synthesis(text)


class Judge:
    """Knows the sentence by its loudness, and checks the rate by the length."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def transcribe(self, sound: np.ndarray, *, model: str | None, language: str | None) -> Any:
        assert len(sound) == WINDOW // 16 and sound.dtype == np.float32
        text = list(HEARD.values())[round(float(np.median(sound)) / 0.1) - 1]
        return SimpleNamespace(text=text, language="en")


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The models that were loaded as judges."""
    loaded: list[Any] = []

    def load(name: str, **options: Any) -> Any:
        loaded.append((name, options))
        return SimpleNamespace(device=SimpleNamespace(name="cpu"))

    monkeypatch.setattr(voice, "load_model", load)
    monkeypatch.setattr(voice, "Engine", Judge)
    return loaded


def write(folder: Path, *texts: str) -> Path:
    path = folder / "data.jsonl"
    path.write_text("\n".join(f'{{"text": "{text}"}}' for text in texts))
    return path


def test_words_that_are_not_heard_are_counted(tmp_path: Path, judged: list[Any]) -> None:
    speaker = Speaker()
    task = make_task("voice", TaskOptions(voice="v1", judge="whisper-tiny.en", offline=True))
    run = run_task(task, SimpleNamespace(engine=speaker, name="v"), task.read(write(tmp_path, *HEARD)))  # type: ignore[arg-type]
    assert judged == [("whisper-tiny.en", {"task": "transcribe", "offline": True})]
    assert speaker.asked == [{"voice": "v1", "language": None}] * 2
    assert [item.output for item in run.items] == list(HEARD.values())
    found = {figure.metric.name: figure.value for figure in figures(task.metrics, run.items)}
    said = ["the cat sat on the mat", "hello there peter"]
    assert found["WER"] == pytest.approx(jiwer.wer(said, list(HEARD.values())))
    assert found["CER"] == pytest.approx(jiwer.cer(said, list(HEARD.values())))
    assert found["WER"] == pytest.approx(1 / 9)
    assert 1 <= found["DNSMOS overall"] <= 5


def test_without_dnsmos_there_are_only_error_rates(
    tmp_path: Path, judged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice, "find_spec", lambda name: None)
    task = make_task("voice")
    assert [metric.name for metric in task.metrics] == ["WER", "CER"]
    run = run_task(task, SimpleNamespace(engine=Speaker(), name="v"), task.read(write(tmp_path, *HEARD)))  # type: ignore[arg-type]
    assert set(run.items[0].values) == {"words", "word_errors", "characters", "character_errors"}
    assert judged[0][0] == "whisper-base.en"


def test_what_cannot_be_spoken_is_named(tmp_path: Path, judged: list[Any]) -> None:
    task = make_task("voice")
    with pytest.raises(InvalidRequestError, match=r"data\.jsonl:2: '…' gave no sound"):
        run_task(task, SimpleNamespace(engine=Speaker(), name="v"), task.read(write(tmp_path, *list(HEARD)[:1], "…")))  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=r"data\.jsonl:1: 'text' is empty"):
        task.read(write(tmp_path, " "))
    with pytest.raises(InvalidRequestError, match=r"data\.jsonl:1: 'text' or 'sentence' is missing"):
        (tmp_path / "data.jsonl").write_text('{"words": "a"}')
        task.read(tmp_path / "data.jsonl")


def test_a_judge_must_transcribe() -> None:
    with pytest.raises(UnsupportedError, match="smollm2-135m is a chat model; for transcription use one of"):
        make_task("voice", TaskOptions(judge="smollm2-135m"))


def test_the_sample_is_read() -> None:
    sentences = make_task("voice").read(None)
    assert [sentence.text for sentence in sentences] == sample_sentences()
    assert len(set(sample_sentences())) == 30


@pytest.mark.weights
@pytest.mark.long("a voice speaks two sentences, which Whisper hears")
def test_a_real_voice_is_understood() -> None:
    task = make_task("voice", TaskOptions(judge="whisper-base.en"))
    loaded = load_model("hibari-6m", device="cpu")
    with opened(loaded, EngineSetting({}), kv_bytes=1 << 20) as subject:
        run = run_task(task, subject, task.read(None), limit=2)
    found = {figure.metric.name: figure.value for figure in figures(task.metrics, run.items)}
    assert len(run.items) == 2 and all(item.output for item in run.items)
    assert found["CER"] <= found["WER"] < 0.1
    assert 2 < found["DNSMOS overall"] < 5
    assert found["DNSMOS background"] > 3
