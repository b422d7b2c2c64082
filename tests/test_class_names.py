"""A search for a class finds one class: no public name is defined in two files."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import antiphon
from support.source.parsed_source import parsed

PACKAGE = Path(antiphon.__file__).parent


def test_every_public_class_name_is_defined_in_one_file() -> None:
    files = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].add(str(path.relative_to(PACKAGE)))
    assert len(files) > 1000
    assert {name: sorted(found) for name, found in files.items() if len(found) > 1} == {}
