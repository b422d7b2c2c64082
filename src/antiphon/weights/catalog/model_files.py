"""Formats of model files by content and name, and the names of split GGUF files."""

from __future__ import annotations

import re
from pathlib import Path

from antiphon.errors import CheckpointError
from antiphon.regular_file import open_regular
from antiphon.weights.catalog.references import FORMAT_OF_SUFFIX

SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
CTRANSLATE2_FORMAT = "ctranslate2-whisper"
FORMAT_OF_MAGIC = {b"GGUF": "gguf", b"lmgg": "ggml-whisper"}


def sniff_format(path: Path) -> str:
    """Return the format of a model file: by its first bytes if they are known, else by its suffix."""
    try:
        with open_regular(path) as stream:
            start = stream.read(64)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    if start[:4] in FORMAT_OF_MAGIC:
        return FORMAT_OF_MAGIC[start[:4]]
    if start[6:].startswith(b"WhisperSpec"):
        return CTRANSLATE2_FORMAT
    try:
        return FORMAT_OF_SUFFIX[path.suffix]
    except KeyError:
        known = ", ".join(FORMAT_OF_SUFFIX)
        raise CheckpointError(f"{path} is not a recognised model file (known: {known})") from None


def split_names(name: str) -> list[str]:
    """Return all file names of the split GGUF that `name` belongs to, or `name` alone if it is not split."""
    match = SPLIT_NAME.fullmatch(name)
    if match is None or int(match["count"]) > 10_000:
        return [name]
    return [f"{match['stem']}-{number + 1:05d}-of-{match['count']}.gguf" for number in range(int(match["count"]))]


def is_first_split(name: str) -> bool:
    return split_names(name)[0] == name
