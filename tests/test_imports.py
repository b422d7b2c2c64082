"""Packages and sub-packages import downward only, and the computing packages import with torch and numpy alone."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

import antiphon
from support.programs.forks import template
from support.source.import_graph import assert_no_cycle, import_graph
from support.source.parsed_source import parsed

ROOT = Path(antiphon.__file__).parent
ROOMS = [
    "cli", "server", "evaluation", "bench", "cluster", "runtime", "executor", "engine", "models", "layers", "ops",
    "weights", "text", "audio",
]  # fmt: skip
COMPUTING = ["engine", "executor", "models", "layers", "ops"]


#: The sub-packages of a package, highest first; "." is the files directly in it. Those of a tuple import each other.
ORDER: dict[str, list[tuple[str, ...]]] = {
    "cli": [
        (".",),
        ("evaluate",),
        ("bench", "talk"),
        ("text",),
        ("chat",),
        ("chat_models",),
        ("catalog", "serving", "sound"),
        ("local", "remote"),
        ("arguments",),
        ("terminal",),
    ],
    "bench": [("report",), ("engine",), (".",), ("load",), ("random_models",)],
    "evaluation": [("sweep",), ("tasks",), (".",), ("metrics",)],
    "executor": [("device",), ("decoder",), ("sampling",), (".",)],
    "models": [("kokoro", "."), ("base",)],
    "server": [(".",), ("apis",), ("page",), ("stored",), ("generation",), ("serving",), ("web",)],
    "server/stored": [("batches",), ("files",), (".",)],
    "server/generation": [("chat",), ("text",), ("tools",), ("parameters",), ("sound",)],
    "server/serving": [("admin",), (".",), ("setup",)],
    "server/web": [("middleware",), ("bodies",), ("access",), ("http",), ("telemetry",)],
    "runtime": [
        ("residency",),
        ("process",),
        ("analysis",),
        ("activity",),
        ("frontend",),
        ("voice",),
        ("text", "transcription", "speech"),
        ("slots",),
        ("loading",),
        ("calls", "voices"),
        (".",),
    ],
    "text": [("tool_calls",), (".",), ("tokenization",)],
    "weights": [("catalog", "adapters"), ("formats",), (".", "dequantize")],
}


def imported_modules(path: Path) -> set[str]:
    """Every module of ours that a file imports, at its top or inside a function, as its path in dots."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            module = node.module or ""
            is_package = (ROOT.parent / Path(*module.split("."))).is_dir()
            names |= {f"{module}.{alias.name}" for alias in node.names} if is_package else {module}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.startswith("antiphon.")}


def imported_rooms(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported_modules(path)} & set(ROOMS)


def sub_packages(package: str) -> set[str]:
    return {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}


def level(package: str, parts: Sequence[str]) -> int:
    """Return the position in the order of a module, given by its path inside the package; -1 for one that has none."""
    name = parts[0] if parts and parts[0] in sub_packages(package) else "."
    return next((position for position, names in enumerate(ORDER[package]) if name in names), -1)


@pytest.mark.long("every source is parsed")
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


def test_a_conversation_in_the_terminal_does_not_import_the_server() -> None:
    assert [path.name for path in (ROOT / "cli" / "talk").glob("*.py") if "server" in imported_rooms(path)] == []


def test_every_folder_is_a_known_room() -> None:
    folders = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.rglob("*/__init__.py")}
    assert folders <= set(ROOMS)


@pytest.mark.parametrize("package", ORDER)
def test_every_sub_package_has_a_position(package: str) -> None:
    assert {name for names in ORDER[package] for name in names} - {"."} == sub_packages(package)


@pytest.mark.parametrize("package", ORDER)
def test_imports_between_sub_packages_point_downward(package: str) -> None:
    wrong = []
    for path in sorted((ROOT / package).rglob("*.py")):
        own = level(package, path.relative_to(ROOT / package).parts)
        for name in sorted(imported_modules(path)):
            other = Path(*name.split(".")[1:])
            if other.is_relative_to(package) and level(package, other.relative_to(package).parts) < own:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_no_api_of_the_server_imports_another() -> None:
    apis = ROOT / "server" / "apis"
    wrong = []
    for path in sorted(apis.rglob("*.py")):
        own = path.relative_to(apis).parts[0]
        others = {name.split(".")[3] for name in imported_modules(path) if name.startswith("antiphon.server.apis.")}
        wrong += [f"{path.relative_to(ROOT)} imports {other}" for other in sorted(others - {own})]
    assert wrong == []


@pytest.mark.parametrize("package", [room for room in ROOMS if (ROOT / room).is_dir()])
def test_no_module_imports_itself_through_others(package: str) -> None:
    """Under `TYPE_CHECKING` either."""
    assert_no_cycle(import_graph(package))


def test_computing_rooms_need_torch_and_numpy_alone() -> None:
    """Import every module of the computing rooms with all other third-party packages hidden.

    What `ops/triton` holds needs Triton, and so does `executor/device`, which runs its programs; the package itself,
    which says whether Triton is there, does not.
    """
    on_gpu = (ROOT / "ops" / "triton", ROOT / "executor" / "device")
    modules = [
        "antiphon." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in COMPUTING
        for path in sorted((ROOT / room).rglob("*.py"))
        if not set(on_gpu) & set(path.parents) or path == ROOT / "ops" / "triton" / "__init__.py"
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
    result = template("torch", "numpy").run(code, ())
    assert result.returncode == 0, result.stderr
