"""Antiphon: one inference engine for language and speech."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon.engine.request import Priority
    from antiphon.engine.sampling_params import SamplingParams
    from antiphon.runtime.frontend.async_engine import AsyncEngine
    from antiphon.runtime.frontend.engine import Engine
    from antiphon.runtime.loading.config import EngineConfig
    from antiphon.text.grammar_spec import GrammarSpec

#: The version of the package; pyproject.toml reads this line.
__version__ = "0.2.0"
__all__ = ["AsyncEngine", "Engine", "EngineConfig", "GrammarSpec", "Priority", "SamplingParams", "__version__"]

_HOMES = {
    "AsyncEngine": "antiphon.runtime.frontend.async_engine",
    "Engine": "antiphon.runtime.frontend.engine",
    "EngineConfig": "antiphon.runtime.loading.config",
    "GrammarSpec": "antiphon.text.grammar_spec",
    "Priority": "antiphon.engine.request",
    "SamplingParams": "antiphon.engine.sampling_params",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that the command line's help needs no tensor library."""
    if name not in _HOMES:
        raise AttributeError(f"module 'antiphon' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
