"""The blocks of README and docs/: each has a language, is run or says why not, and its commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from antiphon.cli.app import app
from antiphon.server.serving.setup.config import DEFAULT_ALIASES
from antiphon.server.serving.setup.launch_plan import LaunchPlan
from antiphon.server.serving.setup.settings import ServerSettings
from antiphon.weights.catalog.catalog import catalog
from support.pages.running import program, served_blocks
from support.pages.snippets import (
    PAGES,
    commands,
    commands_to_run,
    in_language,
    line_is_shown,
    python_blocks,
    snippets,
)

#: Maximum number of blocks that are not run. Each has its reason in its page.
MAX_NOT_RUN = 18


def calls() -> list[tuple[str, list[str]]]:
    """Every call of `antiphon` in a block, whether the block is run or not: its page and line, and its arguments."""
    found = []
    for snippet in in_language("sh"):
        for command in commands(snippet.code):
            for part in re.split(r"\s[|>]\s", command):
                words = shlex.split(part, comments=True)
                if words[:1] == ["antiphon"]:
                    found.append((f"{snippet.name}: {part.strip()}", words[1:]))
    return found


def parsed(command: Any, arguments: list[str]) -> dict[str, Any]:
    """The values of a command, lists that are empty as None."""
    while hasattr(command, "commands"):
        name, *arguments = arguments
        command = command.commands[name]
    values = command.make_context(name, arguments).params
    return {key: list(value) or None if isinstance(value, tuple) else value for key, value in values.items()}


def takes_default_model(command: str, values: dict[str, Any]) -> bool:
    """Return whether the only argument, parsed as the model, is the prompt of `run` or the file of `embed`."""
    if command == "run":
        return values["prompt"] is None and " " in (values["model"] or "")
    return command == "embed" and values["file"] is None


def test_every_call_is_one_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Down to the names of models, and to the plan of a server."""
    monkeypatch.chdir(tmp_path)
    Path("lora").mkdir()  # the adapter of a server in the docs
    found, whole = calls(), typer.main.get_command(app)
    assert len(found) > 40
    for where, arguments in found:
        print(where)
        values = parsed(whole, arguments)
        if arguments[0] == "serve":
            LaunchPlan.of(ServerSettings.gather(values, values["config"]))
        if takes_default_model(arguments[0], values):
            values["model"] = None
        models = [values.get("model"), values.get("name"), *(values.get("names") or []), *(values.get("models") or [])]
        assert {model for model in models if model is not None} <= {*catalog(), *DEFAULT_ALIASES}


def test_each_block_is_run_once() -> None:
    served, alone = served_blocks()
    assert len(served) + len(alone) == len(commands_to_run())
    assert {block.code for (block, *_) in alone if "antiphon transcribe" in block.code}
    assert any("antiphon transcribe" in block.code for (block, *_) in served)


def test_blocks_that_are_not_run_have_a_reason_and_are_few() -> None:
    skipped = [s for s in [*in_language("sh"), *in_language("python")] if s.not_run is not None]
    for snippet in skipped:
        print(f"{snippet.name}: {snippet.not_run}")
        assert snippet.not_run is not None and len(snippet.not_run.split()) >= 3
    assert len(skipped) <= MAX_NOT_RUN
    assert len(commands_to_run()) > 2 * len(skipped)
    assert sum(bool(python_blocks(page)) for page in PAGES) >= 3


def test_every_block_names_its_language() -> None:
    known = {"sh", "python", "js", "text", "json", "toml", "yaml", "ini"}
    found = [snippet for page in PAGES for snippet in snippets(page)]
    assert [snippet.name for snippet in found if snippet.language not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_compile(page: Path) -> None:
    compile(program(page), str(page), "exec")


@pytest.mark.parametrize(
    ("line", "output", "found"),
    [
        ("Hello ... world", "say: Hello big world", True),
        ("Hello ... world", "Hello big\nworld", False),
        ("a.b", "axb", False),
        ("paid (1)", "paid (1).", True),
    ],
)
def test_lines_that_are_shown_are_looked_for(line: str, output: str, found: bool) -> None:
    assert line_is_shown(line, output) is found


def test_blocks_are_read_from_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n```sh\nls\n```\n\n```text\nfile\n```\n\n<!-- not run: needs a sound card -->\n```sh\nx\n```\n"
    )
    listed, output, unrun = snippets(page)
    assert (listed.line, listed.code, listed.not_run, listed.shown) == (4, "ls\n", None, ("file",))
    assert output.language == "text" and unrun.not_run == "needs a sound card" and unrun.shown == ()
