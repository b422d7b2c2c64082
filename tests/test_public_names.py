"""The package's public names: complete, lazy, documented, and typed for the programs of users."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
from pathlib import Path

import pytest

import antiphon
from antiphon import errors
from support import python_docs
from support.programs.forks import BARE_MODULES, template
from support.source.parsed_source import parsed
from support.source.public_names import public_names

SOURCE = Path(antiphon.__file__)
OPTIONS = {"EngineConfig", "HearingOptions", "SpeechOptions", "TranscriptionOptions"}  # given as keyword arguments
ERRORS = {name for name, one in vars(errors).items() if inspect.isclass(one)}


def test_every_type_of_a_public_signature_is_exported() -> None:
    named = public_names()
    assert {"Completion", "TextDelta", "Stream", "Transcript", "SpeechChunk", "TurnSettings", "Prompt"} <= set(named)
    assert set(named) - set(antiphon.__all__) == set()
    assert {name for name, one in named.items() if getattr(antiphon, name) is not one} == set()


def test_nothing_else_is_exported() -> None:
    assert set(antiphon.__all__) - set(public_names()) - OPTIONS - ERRORS == {"__version__"}


class Result:
    __module__ = "antiphon.hidden"


class Service:
    __module__ = "antiphon.hidden"

    def serve(self, path: Path, size: int | None = None) -> list[Result]: ...


def test_the_walk_finds_a_type_that_is_not_exported() -> None:
    assert public_names(Service) == {"Service": Service, "Result": Result}


def test_type_checkers_see_the_names_that_programs_see() -> None:
    (block,) = [one for one in parsed(SOURCE).body if isinstance(one, ast.If) and not isinstance(one.test, ast.UnaryOp)]
    seen = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            assert alias.asname == alias.name, "without `as`, a strict type checker takes the name for private"
            seen[alias.name] = statement.module
    assert seen == antiphon._HOMES


def test_every_public_name_is_in_the_reference() -> None:
    documented = {one.__name__ for classes in python_docs.SECTIONS.values() for one in classes} | set(
        python_docs.OTHERS
    )
    assert set(antiphon.__all__) - documented - ERRORS == {"__version__"}
    assert set(python_docs.OTHERS) <= set(antiphon.__all__)


def test_a_name_is_imported_on_first_use() -> None:
    code = "import sys, antiphon; antiphon.SamplingParams; antiphon.AudioError; dir(antiphon); print(*sys.modules)"
    loaded = template(*BARE_MODULES).run(code, ()).stdout.split()
    assert "antiphon.engine.sampling_params" in loaded
    assert not {"torch", "numpy", "antiphon.runtime", "antiphon.ops"} & set(loaded)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'antiphon' has no attribute 'Engin'"):
        _ = antiphon.Engin  # type: ignore[attr-defined]
    assert {"Engine", "Completion", "__version__"} <= set(dir(antiphon))


def test_the_package_says_that_it_is_typed() -> None:
    assert SOURCE.with_name("py.typed").read_bytes() == b""
    assert "Typing :: Typed" in (importlib.metadata.metadata("antiphon").get_all("Classifier") or [])
