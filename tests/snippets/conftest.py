"""What the blocks of the docs run with: a folder of files, programs, and a server with the default models."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon import environment
from support.pages.doc_files import write_doc_files
from support.pages.running import Programs, end
from support.programs.fork_commands import ForkCommands
from support.server.serve_command import ServeCommand

#: Folders of a home that the servers of several homes can share.
SHARED_FOLDERS = ("models", "verified", "locks", "staging")


@pytest.fixture(scope="session")
def doc_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doc-files") / "files"
    write_doc_files(folder)
    return folder


@pytest.fixture
def folder(doc_files: Path, tmp_path: Path) -> Path:
    """A fresh folder with every file that the docs name, so that no block depends on another."""
    return Path(shutil.copytree(doc_files, tmp_path / "work"))


@pytest.fixture(scope="session")
def fork_commands() -> Iterator[ForkCommands]:
    commands = ForkCommands()
    yield commands
    commands.close()


@pytest.fixture
def programs(fork_commands: ForkCommands, tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin", fork_commands)


@pytest.fixture(scope="session")
def served_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the models of all tests, in which only the commands of the server's own blocks find the server."""
    home = tmp_path_factory.mktemp("served-home")
    for folder in SHARED_FOLDERS:
        (home / folder).symlink_to(environment.home() / folder)
    return home


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, served_home: Path) -> Iterator[str]:
    """The address of `antiphon serve`; answers are kept short."""
    files = tmp_path_factory.mktemp("served-files")  # only one server at a time can use the default folder
    with pytest.MonkeyPatch.context() as started:
        started.setenv("ANTIPHON_HOME", str(served_home))
        command = ServeCommand("--port", "0", "--max-output-tokens", "256", "--files-dir", str(files))
    try:
        command.wait_until_ready()
        yield command.url()
    finally:
        end(command)
