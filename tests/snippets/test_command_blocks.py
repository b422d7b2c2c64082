"""Commands and Python examples of docs/ that load models themselves are run as a reader would run them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from antiphon import environment
from support.pages.running import Programs, check_commands, check_examples, needs_server, program, served_blocks
from support.pages.snippets import DOCS, python_blocks

pytestmark = [pytest.mark.slow, pytest.mark.weights]

BLOCKS = {blocks[0].name: blocks for blocks in served_blocks()[1]}
EXAMPLES = [page for page in DOCS if python_blocks(page) and not needs_server(program(page))]
#: Runs in an interpreter of its own.
FIRST = next(name for name, blocks in BLOCKS.items() if blocks[0].code.startswith("antiphon run"))


def marks(code: str) -> list[pytest.MarkDecorator]:
    """A sweep measures each setting for a quarter of a minute; the fast tests run one on a tiny model."""
    return [pytest.mark.soak] if "--sweep" in code else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(blocks[0].code)) for name, blocks in BLOCKS.items()])
def test_commands(name: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    blocks = BLOCKS[name]
    programs = Programs(tmp_path / "bin") if name == FIRST else request.getfixturevalue("programs")
    variables = {"ANTIPHON_HOME": own_home(tmp_path, blocks[0].code)} if "antiphon rm" in blocks[0].code else {}
    check_commands(blocks, programs, folder, None, **variables)


def own_home(tmp_path: Path, code: str) -> str:
    """A models folder with links to the files of the models that the block names, which it may remove."""
    from antiphon.weights.catalog.catalog import catalog
    from antiphon.weights.catalog.resolve import resolve

    home = tmp_path / "home"
    for name in catalog():
        if re.search(rf"\b{re.escape(name)}\b", code):
            resolve(name)
            source = environment.home() / "models" / name
            shutil.copytree(source, home / "models" / name, copy_function=os.link)
    return str(home)


@pytest.mark.long("all examples of a page are one program")
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.name)
def test_python_examples(page: Path, folder: Path, programs: Programs) -> None:
    check_examples(page, programs, folder, None)
