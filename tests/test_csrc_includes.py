"""The C++ sources include each other one way, and only files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "csrc"

#: What each folder may include besides itself. A folder stands below every folder that includes it.
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "rows": {"base"},
    "packed": {"base"},
    "linear": {"base", "packed", "rows"},
    "half": {"base", "rows"},
    "attention": {"base", "rows"},
    "encoder_attention": {"attention", "base", "half", "linear", "packed"},
    "sampling": {"base"},
    "sound": {"base", "half", "rows"},
    "program": {"attention", "base", "encoder_attention", "linear", "rows", "sampling", "sound"},
}
MAY_INCLUDE["bind"] = set(MAY_INCLUDE)

FILES = sorted(path for path in SOURCES.rglob("*") if path.is_file())
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def includes(path: Path) -> list[str]:
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def test_every_file_is_a_source_in_a_known_folder() -> None:
    assert {path.parent for path in FILES} == {SOURCES / folder for folder in MAY_INCLUDE}
    assert [path.name for path in FILES if path.suffix not in (".h", ".cpp")] == []
    for folder in MAY_INCLUDE:
        assert len(list((SOURCES / folder).iterdir())) <= 15, folder


def test_the_order_of_folders_has_no_cycle() -> None:
    below: set[str] = set()
    for folder, included in MAY_INCLUDE.items():
        assert included <= below, folder
        below.add(folder)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_includes_exist_and_point_downward(path: Path) -> None:
    folder = path.parent.name
    for name in includes(path):
        header = SOURCES / name
        assert header.is_file() and header.suffix == ".h", f'"{name}" does not start at csrc/'
        assert header.parent.name in {folder, *MAY_INCLUDE[folder]}, f"{folder}/ may not include {name}"


def test_every_header_is_included() -> None:
    used = {SOURCES / name for path in FILES for name in includes(path)}
    assert {path for path in FILES if path.suffix == ".h"} == used


def test_every_source_is_compiled_and_every_compiled_source_exists() -> None:
    cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    listed = set(re.findall(r"\bcsrc/([\w/]+\.cpp)", cmake))
    listed |= {f"{name}.cpp" for name in re.findall(r"^\s*add_kernels\(([\w/]+)", cmake, re.MULTILINE)}
    assert listed == {str(path.relative_to(SOURCES)) for path in FILES if path.suffix == ".cpp"}


def test_the_kernel_page_states_the_same_order() -> None:
    text = (ROOT / "docs" / "design" / "cpu-kernels.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)/` \| .* \|([^|]*)\|$", text, re.MULTILINE))
    stated = {name: set(re.findall(r"`(\w+)`", included)) for name, included in rows.items()}
    assert list(stated) == list(MAY_INCLUDE)
    for name, included in stated.items():
        assert "all above" in rows[name] or included == MAY_INCLUDE[name], name
