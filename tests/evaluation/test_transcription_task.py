"""`wer` and `cer`: their data, their errors, and the numbers that jiwer gives for the same transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jiwer
import numpy as np
import pytest

from antiphon.audio.encode import encode
from antiphon.errors import AudioError, InvalidRequestError
from antiphon.evaluation.results import figures
from antiphon.evaluation.run import run_task
from antiphon.evaluation.settings import EngineSetting, opened
from antiphon.evaluation.task import TaskOptions
from antiphon.evaluation.tasks.registry import make_task
from antiphon.runtime.calls.transcript import Segment, Transcript, TranscriptionStats
from antiphon.runtime.loading.loading import load_model
from support.models.tiny_whisper import tiny_whisper
from support.sound.speech import librivox_clips

pytestmark = pytest.mark.slow  # openai-whisper, whose normalisers they use, is only there in `make test-all`

SAID = {
    "one": ("The cat sat on the mat.", "the cat sat on a mat"),
    "two": ("Twenty-five cars, honey!", "25 cars and honey"),
    "three": ("Hello there.", "hello there"),
}


class Hearer:
    """An engine that hears what it is told to; the languages that it was asked for are kept."""

    def __init__(self, heard: dict[str, str], language: str = "en") -> None:
        self.heard, self.language = heard, language
        self.asked: list[str | None] = []

    def transcribe_events(self, source: Path, *, model: str, language: str | None) -> Iterator[Any]:
        self.asked.append(language)
        segment = Segment(0.0, 1.0, " " + self.heard[source.stem])
        stats = TranscriptionStats(1.0, 1.0, 0.1, None, 1, 0, 5)
        yield Transcript(language or self.language, 1.0, 1.0, (segment,), "transcribe", stats)


def subject_of(engine: Any) -> Any:
    return SimpleNamespace(engine=engine, name="hearer")


def write_folder(folder: Path) -> Path:
    for name, (text, _) in SAID.items():
        (folder / f"{name}.wav").write_bytes(b"")
        (folder / f"{name}.txt").write_text(text + "\n")
    (folder / "notes.md").write_text("not a recording")
    return folder


def write_lines(folder: Path, **more: Any) -> Path:
    write_folder(folder)
    path = folder / "data.jsonl"
    lines = [{"audio": f"{name}.wav", "text": text, **more} for name, (text, _) in SAID.items()]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_the_numbers_are_jiwers(tmp_path: Path) -> None:
    from whisper.normalizers import EnglishTextNormalizer

    normalize = EnglishTextNormalizer()
    said, heard = ([normalize(pair[side]) for pair in SAID.values()] for side in (0, 1))
    engine = Hearer({name: pair[1] for name, pair in SAID.items()})
    for name, process in (("wer", jiwer.process_words), ("cer", jiwer.process_characters)):
        task = make_task(name)
        run = run_task(task, subject_of(engine), task.read(write_lines(tmp_path)))
        found = {figure.metric.name: figure.value for figure in figures(task.metrics, run.items)}
        wanted = process(said, heard)
        length = wanted.hits + wanted.substitutions + wanted.deletions
        assert found == pytest.approx(
            {
                name.upper(): getattr(wanted, name),
                "substitutions": wanted.substitutions / length,
                "deletions": wanted.deletions / length,
                "insertions": wanted.insertions / length,
            }
        )
        assert found[name.upper()] > 0
        assert [item.output for item in run.items] == [pair[1] for pair in SAID.values()]


def test_a_folder_and_a_file_have_the_same_items(tmp_path: Path) -> None:
    task = make_task("wer")
    lines = task.read(write_lines(tmp_path))
    folder = task.read(tmp_path)
    assert [(item.path.name, item.text) for item in folder] == sorted((item.path.name, item.text) for item in lines)
    assert [item.id for item in folder] == ["one.wav", "three.wav", "two.wav"]


def test_the_language_is_that_of_the_line_or_the_option_or_detected(tmp_path: Path) -> None:
    heard = {name: pair[1] for name, pair in SAID.items()}
    for options, more, asked in (
        (TaskOptions(), {}, None),
        (TaskOptions(language="de"), {}, "de"),
        (TaskOptions(language="de"), {"language": "fr"}, "fr"),
    ):
        engine = Hearer(heard, language="de")
        task = make_task("wer", options)
        run = run_task(task, subject_of(engine), task.read(write_lines(tmp_path, **more)))
        assert engine.asked == [asked] * 3
        # Words of English numbers are not turned into digits in other languages.
        assert run.items[1].values["errors_in_words"] == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"audio": "one.wav"}', r"data\.jsonl:2: 'text' or 'reference' is missing"),
        ('{"audio": "nothing.wav", "text": "x"}', r"data\.jsonl:2: there is no file .*nothing\.wav"),
        ('{"audio": 5, "text": "x"}', r"data\.jsonl:2: 'audio' is a number; it must be a text"),
        ('{"audio": "one.wav", "text": ', r"data\.jsonl:2: this is not JSON"),
        ("[1]", r"data\.jsonl:2: this is a list; a line must be a JSON object"),
    ],
)
def test_lines_that_are_wrong(tmp_path: Path, line: str, message: str) -> None:
    write_folder(tmp_path)
    data = tmp_path / "data.jsonl"
    data.write_text('{"audio": "one.wav", "text": "x"}\n' + line)
    with pytest.raises(InvalidRequestError, match=message):
        make_task("wer").read(data)


def test_folders_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="has no recordings"):
        make_task("wer").read(tmp_path)
    (tmp_path / "a.wav").write_bytes(b"")
    with pytest.raises(InvalidRequestError, match=r"a\.wav has no text beside it: there is no file a\.txt"):
        make_task("wer").read(tmp_path)
    with pytest.raises(InvalidRequestError, match=r"cannot read .*nowhere"):
        make_task("cer").read(tmp_path / "nowhere")
    with pytest.raises(InvalidRequestError, match="task wer has no data of its own; give --data"):
        make_task("wer").read(None)


def test_a_recording_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    sound = 0.1 * np.sin(np.arange(16_000) / 20, dtype=np.float32)
    (tmp_path / "good.wav").write_bytes(encode(sound, "wav", 16_000))
    (tmp_path / "bad.wav").write_bytes(b"this is no sound")
    data = tmp_path / "data.jsonl"
    data.write_text('{"audio": "good.wav", "text": "x"}\n{"audio": "bad.wav", "text": "x"}\n')
    task = make_task("wer")
    with (
        opened(tiny_whisper(), EngineSetting({}), kv_bytes=64 << 20) as subject,
        pytest.raises(AudioError, match=r"data\.jsonl:2: "),
    ):
        run_task(task, subject, task.read(data))


@pytest.mark.weights
def test_real_speech() -> None:
    """Five sentences of a book, against jiwer over the same transcripts."""
    from whisper.normalizers import EnglishTextNormalizer

    normalize = EnglishTextNormalizer()
    clips = librivox_clips()
    task = make_task("wer")
    loaded = load_model("whisper-tiny.en", device="cpu")
    with opened(loaded, EngineSetting({}), kv_bytes=128 << 20) as subject:
        items = [item for item in task.read(clips[0][0].parent) if item.path in {path for path, _ in clips}]
        run = run_task(task, subject, items)
    wanted = jiwer.wer([normalize(item.text) for item in items], [normalize(item.output or "") for item in run.items])
    (found,) = (figure for figure in figures(task.metrics, run.items) if figure.metric.name == "WER")
    assert found.value == pytest.approx(wanted)
    assert 0 < found.value < 0.25
    assert found.interval is not None and found.interval[0] <= found.value <= found.interval[1]
