"""The files for running a server: what they name exists, and the tools that read them take them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import typer

from antiphon.cli.app import app
from antiphon.server.serving.setup.launch_plan import LaunchPlan
from antiphon.server.serving.setup.options import BY_NAME
from antiphon.server.serving.setup.settings import ServerSettings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def dockerfile() -> list[list[str]]:
    """Its instructions, split as a shell would."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.strip()]


def test_the_image_copies_what_exists_and_what_the_build_needs() -> None:
    copies = [words[1:-1] for words in dockerfile() if words[0] == "COPY" and not words[1].startswith("--from")]
    sources = [source for sources in copies for source in sources]
    assert {"pyproject.toml", "CMakeLists.txt", "csrc", "src"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    rules = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert [source for source in sources if f"!{source}" not in rules] == []
    assert (match := re.search(r'^readme = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)) is not None
    assert match[1] in sources
    licences = re.search(r"license-files = \[(.*)\]", (ROOT / "pyproject.toml").read_text())
    assert licences is not None
    for pattern in re.findall(r'"(.*?)"', licences[1]):
        assert any(fnmatch(source, pattern.partition("/")[0]) for source in sources)


def test_the_image_starts_the_server_with_variables_that_are_read() -> None:
    lines = dockerfile()
    assert lines[0][0] in ("FROM", "ARG") and all(words[0].isupper() for words in lines)
    (entry,) = ("".join(words[1:]) for words in lines if words[0] == "ENTRYPOINT")
    assert entry == "[antiphon,serve]"
    set_ = {word.partition("=")[0] for words in lines if words[0] == "ENV" for word in words[1:]}
    known = {option.variable for option in BY_NAME.values()} | {"PATH", "ANTIPHON_HOME", "HF_HOME"}
    assert set_ <= known and {"ANTIPHON_HOST", "HF_HOME"} <= set_
    assert ["USER", "antiphon"] in lines
    assert ["EXPOSE", str(BY_NAME["port"].default)] in lines


def test_the_example_configuration_is_taken() -> None:
    settings = ServerSettings.gather({}, DEPLOY / "antiphon.toml")
    assert LaunchPlan.of(settings).config.models[0].name == "qwen2.5-coder-0.5b"
    text = (DEPLOY / "antiphon.toml").read_text()
    assert set(re.findall(r"^#? ?(\w+) = ", text, re.MULTILINE)) <= set(BY_NAME)


def test_the_unit_calls_a_command_that_exists_and_waits_for_the_drain() -> None:
    unit = (DEPLOY / "antiphon.service").read_text()
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    name, *arguments = shlex.split(start)[1:]
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    command.make_context(name, arguments)
    (variables,) = re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)
    homes = dict(variable.split("=") for variable in variables.split())
    assert all(homes[name].startswith("/var/lib/antiphon") for name in ("ANTIPHON_HOME", "HF_HOME"))
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(seconds) > ServerSettings.gather({}, DEPLOY / "antiphon.toml")["grace"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_the_unit_is_taken_by_systemd(tmp_path: Path) -> None:
    unit = (DEPLOY / "antiphon.service").read_text()
    unit = unit.replace("/opt/antiphon/bin/antiphon", sys.executable)
    (tmp_path / "antiphon.service").write_text(unit)
    told = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "antiphon.service")], capture_output=True, text=True, check=False
    )
    complaints = [line for line in told.stderr.splitlines() if "antiphon.service" in line]
    assert complaints == []
