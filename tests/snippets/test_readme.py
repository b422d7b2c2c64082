"""README's blocks as a stranger runs them: in a fresh clone, in order, with nothing prepared but downloaded models."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from support.pages.running import ADDRESS, Programs, check_commands, check_example, end
from support.pages.snippets import README, ROOT, Snippet, blocks_to_run, commands, is_server
from support.server.serve_command import ServeCommand

pytestmark = [pytest.mark.slow, pytest.mark.weights]

#: Address of the repository in README; in the test a link to this folder.
REPOSITORY = "REPOSITORY"


def clone(block: Snippet, programs: Programs, folder: Path) -> Path:
    """Run README's `git clone`, and put tracked files as they are in the working tree over those of the last commit."""
    cloning, entering = commands(block.code)
    assert cloning.split()[:3] == ["git", "clone", REPOSITORY]
    (folder / REPOSITORY).symlink_to(ROOT)
    status, output = programs.shell(block.code, folder)
    assert status == 0, output
    target = folder / entering.removeprefix("cd ")
    changed = subprocess.run(["git", "diff", "--binary", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    if changed:
        subprocess.run(["git", "apply"], cwd=target, input=changed, check=True)
    return target


@pytest.mark.long("all blocks of the README, one after another")
def test_every_block_of_the_readme_runs_in_a_fresh_clone(programs: Programs, tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this folder is no git repository that could be cloned")
    first, *blocks = blocks_to_run(README)
    folder = clone(first, programs, tmp_path)
    server: ServeCommand | None = None
    try:
        for block in blocks:
            if is_server(block):
                server = ServeCommand(*shlex.split(block.code)[2:], "--port", "0", folder=folder)
                server.wait_until_ready()
            elif block.language == "python":
                check_example(block, programs, folder)
            else:
                needs_server = ADDRESS in block.code
                check_commands([block], programs, folder, server.url() if server and needs_server else None)
    finally:
        if server is not None:
            end(server)
