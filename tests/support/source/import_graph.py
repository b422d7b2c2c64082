"""Imports between the modules of a package, including those under `TYPE_CHECKING` and inside functions."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import antiphon
from support.source.parsed_source import parsed

ROOT = Path(antiphon.__file__).parent


def import_graph(package: str) -> dict[str, set[str]]:
    """Map each module of a sub-package of antiphon to the modules of that sub-package that it imports."""
    paths = sorted(path for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py")
    modules = {"antiphon." + ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        imported: set[str] = set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        graph[name] = imported & modules.keys()
    return graph


def assert_no_cycle(graph: dict[str, set[str]]) -> None:
    """Raise `graphlib.CycleError`, which names the modules, if the graph has a cycle."""
    TopologicalSorter(graph).prepare()
