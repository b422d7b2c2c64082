"""Docstrings name their subject. Ruff checks the mood of a verb (D401); this test, what ruff takes for a verb."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from support.source.parsed_source import parsed

ROOT = Path(__file__).parents[1]
ROOTS = ("src", "tests/support", "benchmarks")
#: First words that leave the noun to another line.
NO_NOUN = frozenset({"Of", "Those", "That", "One", "Such", "So", "As", "It", "What", "Else"})
#: First words of a function's docstring that has no verb.
NO_VERB = frozenset({"The", "A", "An", "Whether", "How", "None"})
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def unclear_openers(path: Path) -> Iterator[str]:
    """Yield the line number and the first line of each docstring that starts with such a word, also of attributes."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node)
            if _opener(docstring) in NO_NOUN or (is_function and _opener(docstring) in NO_VERB):
                yield f"{node.body[0].lineno}: {docstring.splitlines()[0]}"
        body = getattr(node, "body", None)
        for before, after in pairwise(body if isinstance(body, list) else []):
            match before, after:
                case ast.AnnAssign() | ast.Assign(), ast.Expr(ast.Constant(str(text))) if _opener(text) in NO_NOUN:
                    yield f"{after.lineno}: {text}"
    previous = ""
    for number, line in enumerate(map(str.strip, path.read_text().splitlines()), 1):
        if line.startswith("#: ") and not previous.startswith("#:") and _opener(line[3:]) in NO_NOUN:
            yield f"{number}: {line}"
        previous = line


def _opener(text: str) -> str:
    words = text.replace("'", " ").replace(",", " ").split()
    return words[0] if words else ""


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = (getattr(decorator, "attr", getattr(decorator, "id", "")) for decorator in node.decorator_list)
    return any(name in ("property", "cached_property", "computed_field") for name in names)


def test_docstrings_name_their_subject() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{opener}"
        for root in ROOTS
        for path in sorted((ROOT / root).rglob("*.py"))
        for opener in unclear_openers(path)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Of the finite values."""',
        'def f():\n    """The finite values."""',
        'def f():\n    """Whether x is finite."""',
        'class C:\n    """Those that were made so far."""',
        'class C:\n    x: int\n    """As `y`."""',
        "#: Of the finite values.\nX = 1",
    ],
)
def test_openers_that_are_rejected(source: str, tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(source)
    assert list(unclear_openers(tmp_path / "source.py"))


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Return the finite values."""',
        'class C:\n    """The finite values."""',
        'class C:\n    @property\n    def x(self):\n        """The number of values."""',
        "#: Number of values,\n#: so that none is lost.\nX = 1",
        'def f():\n    """Ask.\n\n    It is asked once.\n    """',
    ],
)
def test_openers_that_are_accepted(source: str, tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(source)
    assert not list(unclear_openers(tmp_path / "source.py"))
