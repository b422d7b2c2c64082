"""The `system_fingerprint` of an answer, which changes with the server's version and the model."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from antiphon import __version__

if TYPE_CHECKING:
    from antiphon.runtime.process.messages import Loaded

NUM_DIGITS = 10


def fingerprint(loaded: Loaded) -> str:
    return _digest(loaded.name, loaded.max_tokens, loaded.weight_bytes, loaded.forms)


@lru_cache(maxsize=256)
def _digest(*parts: str | int) -> str:
    text = "\n".join(str(part) for part in (__version__, *parts))
    return f"fp_{hashlib.sha256(text.encode()).hexdigest()[:NUM_DIGITS]}"
