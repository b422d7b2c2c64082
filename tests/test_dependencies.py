"""Packages that Antiphon depends on: declared with lower bounds, locked with hashes for the image, and audited."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.source.parsed_source import parsed

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "deploy" / "locks"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
#: What the image's Python and platform answer to the markers of requirements.
IMAGE = {"python_version": "3.12", "python_full_version": "3.12.0", "sys_platform": "linux", "platform_system": "Linux"}
#: Installed with others that pin their exact version.
PINNED_BY_OTHERS = {"pydantic-core"}


def declared() -> list[Requirement]:
    project = PROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(text) for group in groups for text in group]


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Return the version and hashes of each package of a lock."""
    found = {}
    for entry in re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", (LOCKS / name).read_text(), re.MULTILINE | re.DOTALL):
        package, version = re.match(r"([\w.-]+)==(\S+)", entry).groups()  # type: ignore[union-attr]
        found[canonicalize_name(package)] = version, re.findall(r"--hash=sha256:([0-9a-f]{64})\b", entry)
    return found


def test_every_package_that_is_imported_is_declared() -> None:
    modules = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                modules.add(node.module.partition(".")[0])
    modules -= sys.stdlib_module_names | {"antiphon"}
    names = {canonicalize_name(requirement.name) for requirement in declared()} | PINNED_BY_OTHERS
    packages = packages_distributions()
    assert "starlette" in modules
    assert [
        module for module in modules if not names & set(map(canonicalize_name, packages.get(module, [module])))
    ] == []


def test_every_requirement_has_a_lower_bound() -> None:
    bounded = {"==", ">=", "~="}
    assert [str(each) for each in declared() if not any(part.operator in bounded for part in each.specifier)] == []


def test_the_groups_build_and_wheel_have_what_the_backend_requires_and_lower_bounds() -> None:
    groups = PROJECT["dependency-groups"]
    assert set(PROJECT["build-system"]["requires"]) < set(groups["build"])
    assert groups["wheel"][0] == {"include-group": "build"}
    assert all(">=" in requirement for requirement in groups["build"] + groups["wheel"][1:])


def test_the_workflow_of_a_release_answers_with_every_python_that_is_supported() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    versions = {line.split()[-1] for line in PROJECT["project"]["classifiers"] if line.count(".") == 1}
    (tried,) = re.findall(r"python: \[(.*)\]", workflow)
    assert set(re.findall(r"[\d.]+", tried)) == versions
    for script in re.findall(r"python (deploy/\S+\.py)", workflow):
        assert (ROOT / script).is_file()


@pytest.mark.parametrize(
    "names, requirements",
    [
        (("packages.txt", "torch.txt"), PROJECT["project"]["dependencies"]),
        (("build.txt",), PROJECT["build-system"]["requires"]),
    ],
)
def test_the_locks_satisfy_what_is_declared(names: tuple[str, ...], requirements: list[str]) -> None:
    versions = {package: version for name in names for package, (version, _) in locked(name).items()}
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate(IMAGE):
            assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("name", ["packages.txt", "torch.txt", "build.txt"])
def test_every_locked_package_has_hashes(name: str) -> None:
    packages = locked(name)
    assert packages and [package for package, (_, hashes) in packages.items() if not hashes] == []


def audit(folder: Path, output: str) -> subprocess.CompletedProcess[str]:
    """Run the audit with a pip-audit that prints the output."""
    program = folder / "pip-audit"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\necho unreachable >&2\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = [sys.executable, str(ROOT / "deploy" / "audit.py")]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_audit_fails_on_a_vulnerability(tmp_path: Path) -> None:
    vulnerability = {"id": "PYSEC-2026-1", "fix_versions": ["1.2"], "aliases": [], "description": ""}
    packages = [
        {"name": "good", "version": "1.0", "vulns": []},
        {"name": "bad", "version": "1.1", "vulns": [vulnerability]},
        {"name": "private", "skip_reason": "not on PyPI"},
    ]
    result = audit(tmp_path, json.dumps({"dependencies": packages, "fixes": []}))
    assert result.returncode == 1, result.stderr
    assert "bad 1.1 has PYSEC-2026-1, fixed in 1.2" in result.stdout
    assert "private was not audited: not on PyPI" in result.stdout
    good = audit(tmp_path, json.dumps({"dependencies": packages[:1], "fixes": []}))
    assert good.returncode == 0 and "packages.txt: 1 packages" in good.stdout


@pytest.mark.parametrize("output", ["", json.dumps({"dependencies": [{"name": "a", "skip_reason": "no answer"}]})])
def test_the_audit_is_skipped_with_a_message_where_its_service_is_unreachable(tmp_path: Path, output: str) -> None:
    result = audit(tmp_path, output)
    assert result.returncode == 0, result.stderr
    assert "packages.txt: skipped, since the database of vulnerabilities cannot be reached" in result.stdout


def test_the_workflow_tests_and_audits() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert {"- run: .ci/run", "- run: python deploy/audit.py"} <= {line.strip() for line in workflow.splitlines()}


def test_the_image_installs_only_what_is_locked() -> None:
    installs = re.findall(r"pip install (?!pip).*", (ROOT / "deploy" / "Dockerfile").read_text())
    assert len(installs) == 5
    assert [line for line in installs if "--require-hashes" not in line and "--no-deps" not in line] == []
