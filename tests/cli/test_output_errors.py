"""Standard output that is full or closed, exit codes, and files that cannot be written."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from antiphon.errors import MemoryBudgetError
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.memory_budget import machine_bytes
from support.programs.command_line import PROGRAM, Invoke, assert_refused
from support.programs.forks import BARE_MODULES, ENGINE_MODULES, LIGHT_MODULES, template

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["speak", "--voices"], ["run", "MODEL", "hello"]])
def test_a_full_standard_output(tiny_llama: Path, arguments: list[str]) -> None:
    given = [str(tiny_llama) if part == "MODEL" else part for part in arguments]
    modules = ENGINE_MODULES if "MODEL" in arguments else LIGHT_MODULES
    with FULL.open("wb") as full:
        result = template(*modules).run(PROGRAM, given, stdout=full.fileno())
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "antiphon: cannot write to standard output: No space left on device"
    assert "Traceback" not in result.stderr and "Exception ignored" not in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["speak", "--voices", "--model", "kokoro-82m"]])
def test_a_closed_pipe_is_silent(arguments: list[str]) -> None:
    """As `antiphon list | true`: the status is that of a program ended by SIGPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = template(*LIGHT_MODULES).run(PROGRAM, arguments, stdout=writer)
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "no-such-model", "hi", "--temperature", "-1"],
        ["run", "no-such-model", "hi", "--temperature", "abc"],
        ["run", "no-such-model", "hi", "--kv-memory", "0"],
        ["run", "no-such-model", "hi", "--no-such-option"],
        ["run", "no-such-model", "hi", "--json-schema", "{"],
        ["run", "no-such-model", "hi", "--regex", "a", "--choice", "b"],
        ["chat", "no-such-model", "--top-p", "2"],
        ["batch", "no-such-model", "-", "--max-tokens", "0"],
        ["batch", "no-such-model", "-", "--policy", "nonsense"],
        ["speak", "hi", "-o", "x.wav", "--speed", "9"],
        ["speak", "hi", "-o", "x.xyz"],
        ["speak", "hi", "-o", "x.wav", "--format", "nonsense"],
        ["transcribe"],
        ["transcribe", "x.wav", "--format", "nonsense"],
        ["transcribe", "--live", "--beam", "99"],
        ["transcribe", "--live", "--words"],
        ["transcribe", "x.wav", "--format", "json", "--words"],
        ["serve", "--port", "99999"],
        ["config", "--port", "99999"],
        ["bench", "serve", "--base-url", "http://127.0.0.1:1", "--model", "x", "--input-len", "9:3"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(invoke: Invoke, arguments: list[str]) -> None:
    outcome = invoke(*arguments)
    assert (outcome.code, outcome.out) == (2, ""), outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "no-such-model", "hi"],
        ["transcribe", "/nosuch/x.wav"],
        ["embed", "all-minilm-l6-v2", "/nosuch/x.txt"],
        ["speak", "--file", "/nosuch/x.txt", "-o", "x.wav"],
        ["run", "no-such-model", "hi", "--trace", "/nosuch/trace.json"],
        ["bench", "compare", "/nosuch/a", "/nosuch/b"],
    ],
    ids=" ".join,
)
def test_a_failure_is_exit_code_1(invoke: Invoke, arguments: list[str]) -> None:
    outcome = invoke(*arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("antiphon: ") and outcome.err.count("\n") == 1


def test_more_cache_than_memory(invoke: Invoke) -> None:
    outcome = invoke("run", "no-such-model", "hi", "--kv-memory", "99999999")
    there = f"{machine_bytes() >> 20:,} MiB"
    assert_refused(outcome, "--kv-memory 99999999: 99,999,999 MiB were requested", there, code=2)
    with pytest.raises(MemoryBudgetError, match=rf"1,048,576 MiB were requested.*only {there}"):
        Engine(kv_bytes=1 << 40)


def test_memory_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(num_bytes: int, device: object) -> None:
        raise MemoryError

    monkeypatch.setattr("antiphon.runtime.slots.arena.ops.allocate_arena", refuse)
    with pytest.raises(MemoryBudgetError, match="refused 64 MiB for keys and values"):
        Engine(kv_bytes=64 << 20)


def test_an_unknown_cache_type_names_the_option_and_the_choices(invoke: Invoke) -> None:
    outcome = invoke("run", "no-such-model", "hi", "--kv-type", "int4")
    assert outcome.code == 2 and "--kv-type" in outcome.err
    assert all(name in outcome.err for name in ("fp32", "fp16", "bf16", "int8"))


def test_speech_for_a_folder_that_is_not_there() -> None:
    """One line, before torch is imported and the model is loaded."""
    code = """
import sys
sys.argv = ["antiphon", "speak", "hi", "-o", "/nosuch/x.wav"]
from antiphon.cli.app import main
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    result = template(*BARE_MODULES).run(code, ())
    assert (result.returncode, result.stderr) == (
        1,
        "antiphon: cannot write /nosuch/x.wav: there is no folder /nosuch\n",
    )


def test_ctrl_c_while_the_interpreter_exits_leaves_no_traceback() -> None:
    code = """
import atexit, os, signal, sys
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["antiphon", "list"]
from antiphon.cli.app import main
main()
"""
    result = template(*BARE_MODULES).run(code, ())
    assert result.returncode == -signal.SIGINT and result.stdout and result.stderr == ""
