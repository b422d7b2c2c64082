"""Data files of tasks: what is wrong with a line is said with its file and number."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.items import read_lines, sample_text
from antiphon.evaluation.task import EvaluationTask
from antiphon.evaluation.tasks.choice import Choice
from antiphon.evaluation.tasks.generation import Accuracy, Translate
from antiphon.evaluation.tasks.registry import LM_EVAL, TASKS, make_task, task_class


def written(folder: Path, text: str) -> Path:
    path = folder / "items.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


GOOD = '{"question": "q", "choices": ["a", "b"], "answer": 1}\n'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{nonsense", "this is not JSON"),
        ("[1, 2]", "this is a list; a line must be a JSON object"),
        ('{"choices": ["a", "b"], "answer": 0}', "'question' is missing; the line has 'choices', 'answer'"),
        ('{"question": " ", "choices": ["a", "b"], "answer": 0}', "'question' is empty"),
        ('{"question": 3, "choices": ["a", "b"], "answer": 0}', "'question' is a number; it must be a text"),
        ('{"question": "q", "choices": ["a"], "answer": 0}', "'choices' has 1 text; it must have 2 or more"),
        ('{"question": "q", "choices": ["a", 2], "answer": 0}', "'choices' is a list; it must be a text or a list"),
        ('{"question": "q", "choices": ["a", ""], "answer": 0}', "'choices' has an empty text"),
        ('{"question": "q", "choices": ["a", "b"], "answer": 2}', "'answer' is 2; there are 2 choices, counted from 0"),
        ('{"question": "q", "choices": ["a", "b"], "answer": "c"}', "'answer' is 'c', which is none of the choices"),
        ('{"question": "q", "choices": ["a", "b"], "answer": true}', "'answer' is true or false; it must be a whole"),
        ('{"question": "q", "choices": ["a", "b"]}', "'answer' is missing"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = written(tmp_path, GOOD + "\n" + line + "\n")
    with pytest.raises(InvalidRequestError) as error:
        Choice().read(path)
    assert str(error.value).startswith(f"{path}:3: {problem}")


def test_lines_and_their_ids(tmp_path: Path) -> None:
    path = written(tmp_path, '\n{"id": "x", "a": "1\u2028"}\n{"a": "2"}')
    assert [(line.id, line.text("a")) for line in read_lines(path)] == [("x", "1\u2028"), ("3", "2")]


@pytest.mark.parametrize(("text", "problem"), [("", "has no items"), ("\n \n", "has no items")])
def test_files_without_items(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        read_lines(written(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="cannot read"):
        read_lines(tmp_path / "absent.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidRequestError, match="is not UTF-8 text"):
        read_lines(tmp_path / "binary")


def test_references_are_one_or_several(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '{"prompt": "p", "reference": "r"}\n{"question": "p", "answers": ["r", "s"]}\n',
    )
    assert [item.references for item in Accuracy().read(path)] == [["r"], ["r", "s"]]


def test_a_sound_file_is_found_beside_the_data(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"")
    one, other = read_lines(written(tmp_path, '{"audio": "a.wav"}\n{"audio": "b.wav"}\n'))
    assert one.path("audio") == tmp_path / "a.wav"
    with pytest.raises(InvalidRequestError, match=r"items\.jsonl:2: there is no file"):
        other.path("audio")


def test_a_task_without_data_of_its_own() -> None:
    with pytest.raises(InvalidRequestError, match="give --data FILE, JSON lines with prompt and reference"):
        Translate().read(None)


def test_an_unknown_task_is_rejected_with_the_names() -> None:
    with pytest.raises(
        InvalidRequestError, match=r"there is no task 'perplexty'; there are: .*choice.*mean perplexity"
    ):
        make_task("perplexty")


@pytest.mark.parametrize(
    "name",
    [
        # openai-whisper, which `voice` needs, is only there in `make test-all`
        pytest.param(name, marks=[pytest.mark.slow] if name == "voice" else [])
        for name in TASKS
        if not name.startswith(LM_EVAL)
    ],
)
def test_every_task_is_described(name: str) -> None:
    kind = task_class(name)
    assert issubclass(kind, EvaluationTask) and kind.name == name and kind.summary and kind.fields
    assert kind.metrics and len({metric.name for metric in kind.metrics}) == len(kind.metrics)
    if kind.sample is not None:
        assert sample_text(kind.sample)
        assert kind().read(None)
