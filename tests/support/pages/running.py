"""Runner of a page's code blocks, in a shell with this environment's programs, and checks of their output."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from antiphon import environment
from support.pages.snippets import Snippet, commands_to_run, line_is_shown, python_blocks
from support.programs.fork_commands import ForkCommands
from support.server.serve_command import ServeCommand

#: Server address that the docs use.
ADDRESS = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 240
CONSOLE_SCRIPT = f"#!{sys.executable}\nimport sys\nfrom antiphon.cli.app import main\nsys.exit(main())\n"

#: Commands that use the server at ANTIPHON_BASE_URL.
SERVED_COMMANDS = {"run", "chat", "speak", "transcribe", "embed"}

#: Text required in the output of a block, by a part of its code.
EXPECTED = {
    "antiphon transcribe meeting.m4a": "fellow Americans",
    "antiphon transcribe examples/meeting.m4a": "concert in December",
    "-F file=@meeting.m4a": "fellow Americans",
    "antiphon list": "smollm2-135m",
    "--json-schema person.schema.json": '"born"',
    "antiphon batch": '"finish_reason"',
    "antiphon --version": "antiphon",
}


class Programs:
    """Folder with `antiphon` and `python` of this environment. With `forks`, they start without importing anything."""

    def __init__(self, folder: Path, forks: ForkCommands | None = None) -> None:
        folder.mkdir()
        if forks is not None:
            forks.install(folder)
        else:
            (folder / "python").symlink_to(sys.executable)
            (folder / "antiphon").write_text(CONSOLE_SCRIPT, encoding="utf-8")
            (folder / "antiphon").chmod(0o755)
        (folder / ".curlrc").write_text("fail-with-body\nno-progress-meter\n")  # an HTTP error fails the block
        self._variables = {
            **os.environ,
            "CURL_HOME": str(folder),
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "ANTIPHON_HOME": str(environment.home()),
            "NO_COLOR": "1",
        }

    def shell(self, code: str, folder: Path, typed: str = "", **variables: str) -> tuple[int, str]:
        """Run code in a shell that stops at the first error; return its status and its combined output."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=folder,
            env=self._variables | variables,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout


def check_commands(
    blocks: Sequence[Snippet], programs: Programs, folder: Path, server: str | None, **more: str
) -> None:
    """Run blocks with equal code once; they must succeed, print or write something, and print what the pages show."""
    first = blocks[0]
    code = first.code
    if server is not None:
        code = code.replace(ADDRESS, server)
        more["ANTIPHON_BASE_URL"] = server
    before = set(folder.rglob("*"))
    typed = "Say hello in one word.\n" if code.startswith("antiphon chat") else ""
    status, output = programs.shell(code, folder, typed, **more)
    assert status == 0, f"{first.name} ended with {status}:\n{output}"
    made = [path for path in set(folder.rglob("*")) - before if path.is_file() and path.stat().st_size]
    assert output.strip() or made, f"{first.name} printed nothing and wrote no file"
    assert "Traceback" not in output, output
    for part, wanted in EXPECTED.items():
        assert part not in code or wanted in output, f"{first.name} printed no {wanted!r}:\n{output}"
    for block in blocks:
        check_shown(block, output)


def check_examples(page: Path, programs: Programs, folder: Path, server: str | None) -> None:
    """Run a page's Python blocks as one program; it must succeed and print what the page shows."""
    output = _run_script(program(page, server or ADDRESS), page.name, programs, folder)
    for block in python_blocks(page):
        check_shown(block, output)


def check_example(block: Snippet, programs: Programs, folder: Path) -> None:
    """Run a Python block as a program of its own; it must succeed and print what the page shows."""
    check_shown(block, _run_script(block.code, block.page.name, programs, folder))


def _run_script(code: str, name: str, programs: Programs, folder: Path) -> str:
    script = folder.with_name(f"{name}.py")
    script.write_text(code, encoding="utf-8")
    status, output = programs.shell(f"python {shlex.quote(str(script))}", folder)
    assert status == 0 and output.strip(), f"{name}:\n{output}"
    return output


def check_shown(snippet: Snippet, output: str) -> None:
    for line in snippet.shown:
        assert line_is_shown(line, output), f"{snippet.name} shows {line!r}, which was not printed:\n{output}"


def program(page: Path, address: str = ADDRESS) -> str:
    """Return the Python blocks of a page as one program with the page's line numbers."""
    lines: list[str] = []
    for snippet in python_blocks(page):
        lines += [""] * (snippet.line - 1 - len(lines))
        lines += snippet.code.splitlines()
    return "\n".join(lines).replace(ADDRESS, address) + "\n"


def needs_server(code: str) -> bool:
    """Return whether the code talks to a server that must already run."""
    return ADDRESS in code or re.search(r"antiphon (ps|stop)\b", code) is not None


def served_blocks() -> tuple[list[list[Snippet]], list[list[Snippet]]]:
    """Return the blocks to run with a server that has the models, and those to run without one.

    The shortest block of each command loads the model itself; later blocks use the server if the command can.
    """
    blocks = sorted(commands_to_run(), key=lambda found: len(found[0].code))
    served, alone, known = [], [], set()
    for found in blocks:
        code = found[0].code
        used = set(re.findall(r"antiphon (\w+)", code))
        can_be_served = used <= SERVED_COMMANDS and not re.search(r"--(live|srt)\b", code)
        if needs_server(code) or (can_be_served and used <= known):
            served.append(found)
        else:
            alone.append(found)
            known |= used
    return served, alone


def end(command: ServeCommand) -> None:
    """Stop a server; fail unless it exits without an error."""
    if command.process.poll() is None:
        command.process.send_signal(signal.SIGTERM)
    status = command.wait_for_end()
    assert status == 0 and "Traceback" not in command.text(), command.text()
