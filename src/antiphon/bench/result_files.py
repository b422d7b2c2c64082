"""What result files have in common: their form, where and when they were made, and how they are read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.bench.machine import environment, machine
from antiphon.errors import InvalidRequestError

#: Additions keep this number: a reader takes what it knows, and what a file lacks is left out.
FORMAT = 1


def origin(kind: str | None = None) -> dict[str, Any]:
    """What every file has: its form, and where and when it was made; the kind where a command writes several."""
    return {
        "format": FORMAT,
        **({} if kind is None else {"kind": kind}),
        "tool": f"antiphon {__version__}",
        "machine": machine(),
        "environment": environment(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def read_json(path: Path) -> Any:
    """What a file holds; `InvalidRequestError` if it cannot be read or is not JSON."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(f"cannot read {path}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"{path} is not JSON: {error}") from error
