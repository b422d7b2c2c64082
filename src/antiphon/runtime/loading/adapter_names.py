"""Names of adapters: `base:adapter` names a model with one of its adapters. Imports no tensor library."""

from __future__ import annotations

import re
from pathlib import Path

from antiphon.errors import InvalidRequestError, ModelNotFoundError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}")
SEPARATOR = ":"
#: Maximum adapters of one model that are loaded at the same time.
MAX_ADAPTERS = 64


def adapter_model_name(base: str, adapter: str) -> str:
    """Return the name by which requests use a model with an adapter; reject an invalid adapter name."""
    if NAME.fullmatch(adapter) is None:
        raise InvalidRequestError(
            f"the adapter's name {adapter[:140]!r} is not valid: it has up to 128 letters, digits and . _ + @ -, and "
            "begins with a letter or digit"
        )
    return f"{base}{SEPARATOR}{adapter}"


def name_of_adapter(path: Path) -> str:
    """Return the default name of an adapter: that of its folder or file."""
    path = path.expanduser()
    return path.stem if path.suffix == ".gguf" else path.resolve().name


def adapter_file_bytes(path: Path) -> int:
    """Return the size of an adapter's weight files, at least the memory that its weights will take."""
    path = path.expanduser()
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.iterdir() if file.suffix in (".safetensors", ".gguf"))
        return path.stat().st_size
    except OSError as error:
        raise ModelNotFoundError(f"there is no adapter {path}: {error.strerror or error}") from error
