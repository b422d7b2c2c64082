"""What the arguments of `antiphon run` mean: a model, a prompt or both; and the file and the model of `embed`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from antiphon.cli.text.prompt_arguments import PromptArguments, read_arguments
from antiphon.errors import ModelNotFoundError, UsageError
from antiphon.weights.catalog.defaults import CHAT_MODEL
from support.programs.command_line import Invoke, assert_refused


@pytest.fixture(autouse=True)
def _piped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("from the pipe"))


@pytest.mark.parametrize(
    ("arguments", "meaning"),
    [
        (["smollm2-135m", "hi"], PromptArguments("smollm2-135m", "hi", False)),
        (["smollm2-135m", "-"], PromptArguments("smollm2-135m", "from the pipe", False)),
        (["smollm2-135m"], PromptArguments("smollm2-135m", "from the pipe", False)),
        (["SmolLM2-135M"], PromptArguments("SmolLM2-135M", "from the pipe", False)),
        (["./file.gguf"], PromptArguments("./file.gguf", "from the pipe", False)),
        (["file.gguf"], PromptArguments("file.gguf", "from the pipe", False)),
        (["folder/model"], PromptArguments("folder/model", "from the pipe", False)),
        (["hub:owner/repo"], PromptArguments("hub:owner/repo", "from the pipe", False)),
        (["here"], PromptArguments("here", "from the pipe", False)),
        (["a file with spaces"], PromptArguments("a file with spaces", "from the pipe", False)),
        ([], PromptArguments(CHAT_MODEL, "from the pipe", True)),
        (["-"], PromptArguments(CHAT_MODEL, "from the pipe", True)),
        (["Name a bird."], PromptArguments(CHAT_MODEL, "Name a bird.", True)),
        (["Why?"], PromptArguments(CHAT_MODEL, "Why?", True)),
        (["Is 1/2 more than 1/3?"], PromptArguments(CHAT_MODEL, "Is 1/2 more than 1/3?", True)),
        (["word\n" * 2000], PromptArguments(CHAT_MODEL, "word\n" * 2000, True)),
    ],
)
def test_arguments(arguments: list[str], meaning: PromptArguments, tmp_path: Path) -> None:
    for name in ("here", "a file with spaces"):
        (tmp_path / name).write_text("")
    model, prompt = [*arguments, None, None][:2]
    assert read_arguments(model, prompt, names_of_server=False) == meaning


def test_with_an_address_any_word_may_be_a_model_of_the_server() -> None:
    assert read_arguments("m", None, names_of_server=True) == PromptArguments("m", "from the pipe", False)
    assert read_arguments("Two words", None, names_of_server=True) == PromptArguments("default-chat", "Two words", True)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["hello", None], f"antiphon run {CHAT_MODEL} hello"),
        (["it's", None], f"""antiphon run {CHAT_MODEL} 'it'"'"'s'"""),
        (["what", "time"], 'antiphon run "what time"'),
        (["what", "x" * 99], 'antiphon run "what …"'),
    ],
)
def test_a_word_that_names_no_model_is_explained_both_ways(arguments: list[str | None], command: str) -> None:
    with pytest.raises(ModelNotFoundError, match="is no known model") as raised:
        read_arguments(*arguments, names_of_server=False)  # type: ignore[misc]
    assert str(raised.value).endswith(f"as a question: {command}")


def test_near_models_are_named_first_and_only_those_that_generate() -> None:
    with pytest.raises(ModelNotFoundError, match=r"\(nearest models: smollm2-135m\)"):
        read_arguments("smollm2-135", "hi", names_of_server=False)
    with pytest.raises(ModelNotFoundError, match=r"'whisper-tiny.n' is no known model \(`antiphon list`"):
        read_arguments("whisper-tiny.n", "hi", names_of_server=False)


def test_nothing_to_ask() -> None:
    with pytest.raises(UsageError, match="the first argument is empty"):
        read_arguments("", None, names_of_server=False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "no file: give one with a text on each line"),
        (["nowhere.txt"], "there is no file nowhere.txt: antiphon embed [MODEL] FILE"),
        (["all-minilm-l6-v2"], "after the model all-minilm-l6-v2 goes a file"),
    ],
)
def test_embed_needs_a_file(arguments: list[str], complaint: str, invoke: Invoke) -> None:
    assert_refused(invoke("embed", *arguments), complaint, code=2)


def test_a_single_argument_of_embed_is_the_file_also_if_it_is_called_like_a_model(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "smollm2-135m").write_text("\n")
    assert_refused(invoke("embed", "smollm2-135m"), "smollm2-135m has no lines to process")
