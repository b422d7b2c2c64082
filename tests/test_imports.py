"""The rooms import downward only, and the computing rooms import with torch and numpy alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import antiphon

ROOT = Path(antiphon.__file__).parent
ROOMS = [
    "cli", "server", "bench", "cluster", "runtime", "executor", "engine", "models", "layers", "ops", "weights",
    "text", "audio",
]  # fmt: skip
COMPUTING = ["engine", "executor", "models", "layers", "ops"]


def imported_rooms(path: Path) -> set[str]:
    """Every room that a file imports from, at its top or inside a function."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names = [node.module or ""]
            if node.module == "antiphon":
                names += [f"antiphon.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("antiphon.")}
    return rooms & set(ROOMS)


def test_imports_point_downward() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0]
        if room not in ROOMS:
            continue
        for other in imported_rooms(path):
            if ROOMS.index(other) < ROOMS.index(room):
                wrong.append(f"{path.relative_to(ROOT)} imports {other}")
    assert wrong == []


def test_every_folder_is_a_known_room() -> None:
    folders = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.rglob("*/__init__.py")}
    assert folders <= set(ROOMS)


def test_computing_rooms_need_torch_and_numpy_alone() -> None:
    """Import every module of the computing rooms with all other third-party packages hidden."""
    modules = [
        "antiphon." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in COMPUTING
        for path in sorted((ROOT / room).rglob("*.py"))
    ]
    code = f"""
import sys, torch, numpy
loaded = {{name.split(".")[0] for name in sys.modules}}
class Hide:
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top not in loaded and top not in sys.stdlib_module_names and top != "antiphon":
            raise ImportError(f"hidden: {{name}}")
sys.meta_path.insert(0, Hide())
import importlib
for module in {modules!r}:
    importlib.import_module(module.removesuffix(".__init__"))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=None)
    assert result.returncode == 0, result.stderr
