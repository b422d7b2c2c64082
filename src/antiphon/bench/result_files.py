"""Common parts of result files: format, origin and reading."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.bench.machine import environment, machine
from antiphon.errors import InvalidRequestError

#: Format number, unchanged by additions: a reader uses the fields it knows, and skips what a file lacks.
FORMAT = 1


def origin(kind: str | None = None) -> dict[str, Any]:
    """Return the fields of every result file: format, machine and date, and the kind if a command writes several."""
    return {
        "format": FORMAT,
        **({} if kind is None else {"kind": kind}),
        "tool": f"antiphon {__version__}",
        "machine": machine(),
        "environment": environment(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise `InvalidRequestError` if it cannot be read or is not JSON."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(f"cannot read {path}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"{path} is not JSON: {error}") from error
