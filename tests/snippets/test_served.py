"""Commands and Python examples of docs/ that use a server, and the start of servers."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from support.pages.running import (
    Programs,
    check_commands,
    check_examples,
    end,
    needs_server,
    program,
    served_blocks,
)
from support.pages.snippets import DOCS, commands, in_language, is_server, python_blocks
from support.server.serve_command import ServeCommand

pytestmark = [pytest.mark.slow, pytest.mark.weights]

BLOCKS = {blocks[0].name: blocks for blocks in served_blocks()[0]}
EXAMPLES = [page for page in DOCS if python_blocks(page) and needs_server(program(page))]


@pytest.mark.parametrize("name", BLOCKS)
def test_commands(name: str, server: str, served_home: Path, folder: Path, programs: Programs) -> None:
    check_commands(BLOCKS[name], programs, folder, server, ANTIPHON_HOME=str(served_home))


@pytest.mark.long("all examples of a page are one program")
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.name)
def test_python_examples(page: Path, server: str, folder: Path, programs: Programs) -> None:
    check_examples(page, programs, folder, server)


def test_a_server_with_models_of_its_own_and_wyoming_gets_ready_and_stops(folder: Path) -> None:
    """The blocks that start servers with nothing but other models are parsed; the plain one is the fixture's."""
    servers = [commands(block.code)[0] for block in in_language("sh") if is_server(block)]
    line = min((line for line in servers if "--wyoming" in line), key=len)
    command = ServeCommand(*shlex.split(line)[2:], "--port", "0", "--wyoming", "0", folder=folder)
    try:
        command.wait_until_ready()
    finally:
        end(command)
    assert "Wyoming is listening on " in command.text()
