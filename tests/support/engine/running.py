"""Requests stepped until they end."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.engine.core import EngineCore
from antiphon.engine.request import Request


def run(core: EngineCore, requests: Iterable[Request]) -> None:
    """Add the requests and step until all have ended; check the engine's integrity after every step."""
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
        core.check_integrity()
