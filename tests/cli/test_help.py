"""Help, completion and the words of small numbers."""

from __future__ import annotations

import os
import re

import pytest
import typer
from typer.testing import CliRunner

from antiphon.cli.app import app
from antiphon.cli.sound.speak import _report
from antiphon.counted import counted
from antiphon.runtime.calls.speech import SpeechStats
from support.programs.command_line import PROGRAM
from support.programs.forks import BARE_MODULES, template


def commands() -> list[list[str]]:
    found: list[list[str]] = [[]]
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        found += [[name], *([name, inner] for inner in getattr(command, "commands", ()))]
    return found


@pytest.mark.parametrize("names", commands(), ids=lambda names: " ".join(names) or "antiphon")
def test_short_and_long_help_are_the_same_and_plain(names: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*names, option], prog_name="antiphon") for option in ("-h", "--help"))
    assert short.exit_code == long.exit_code == 0
    assert short.output == long.output and "-h, --help" in short.output
    assert not re.search(r"<\w+", short.output), "a type name of Python's"


def completions(*words: str) -> list[str]:
    environment = os.environ | {
        "_ANTIPHON_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["antiphon", *words]),
        "COMP_CWORD": str(len(words)),
    }
    result = template(*BARE_MODULES).run("import sys; sys.argv = ['antiphon']; " + PROGRAM, (), environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_the_shell_completes_commands_options_and_models() -> None:
    assert completions("tr") == ["transcribe"]
    assert completions("run", "tiny") == ["tinyllama-1.1b"]
    assert "--temperature" in completions("run", "x", "--temp")
    assert completions("speak", "--model", "hib") == ["hibari-6m"]


def test_the_script_for_a_shell_can_be_printed() -> None:
    environment = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    code = "import sys; sys.argv[0] = 'antiphon'; " + PROGRAM
    shown = template(*BARE_MODULES).run(code, ["--show-completion", "bash"], environment)
    assert shown.returncode == 0 and "complete -o default -F _antiphon_completion antiphon" in shown.stdout


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 requests"), (1, "1 request"), (2, "2 requests"), (1200, "1,200 requests")]
)
def test_numbers_agree_with_their_nouns(number: int, text: str) -> None:
    assert counted(number, "request") == text


def test_one_clause() -> None:
    line = _report(SpeechStats(1.0, 0.05, 0.1, 0.1, 0.0, 20, 20, 1))
    assert ", 1 clause, " in line
