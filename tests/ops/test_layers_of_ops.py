"""Imports inside `ops` point one way: recordings and reference implementations know no device."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from antiphon import ops
from support.source.parsed_source import parsed

ROOT = Path(ops.__file__).parent
#: What the files of each sub-package may not import, of `antiphon.ops`.
FORBIDDEN = {
    "reference": ("native", "program", "sound", "registry", "operation"),
    "program": ("native", "reference", "sound", "registry", "operation"),
    "native": ("sound", "registry", "operation"),
    "triton": ("native", "sound", "registry", "operation"),
    "sound": ("program", "native.program", "registry", "operation"),
}


def imports(path: Path) -> set[str]:
    """Modules of `antiphon.ops` that a file imports, without that prefix."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name.removeprefix("antiphon.ops.") for name in found if name.startswith("antiphon.ops.")}


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_point_one_way(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in imports(path)
        if any(name == other or name.startswith(f"{other}.") for other in FORBIDDEN[package])
    ]
    assert wrong == []


def test_only_the_native_program_knows_recordings() -> None:
    wrong = [
        path.name
        for path in sorted((ROOT / "native").glob("*.py"))
        if any(name.startswith("program") for name in imports(path))
    ]
    assert wrong == []
