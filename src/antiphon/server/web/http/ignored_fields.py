"""`IgnoredFields`: the unknown fields of a request, as the response header `x-antiphon-ignored` names them."""

from __future__ import annotations

import re

HEADER = "x-antiphon-ignored"
MAX_NAMES = 32
MAX_NAME_CHARACTERS = 80
MAX_HEADER_CHARACTERS = 1000
UNSAFE = re.compile(r"[^A-Za-z0-9_.\[\]-]")


class IgnoredFields:
    """Paths of ignored fields, each once, without the indices of list items. Bounded, whatever a client sends."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._num_more = 0

    def __bool__(self) -> bool:
        return bool(self._paths)

    def add(self, path: str) -> None:
        shown = UNSAFE.sub("?", path[:MAX_NAME_CHARACTERS])
        if shown in self._paths:
            return
        if len(self._paths) < MAX_NAMES:
            self._paths[shown] = None
        else:
            self._num_more += 1

    def header(self) -> str:
        """Return the paths separated by commas. `+N` stands for N further paths that exceed the header's size."""
        kept, size = [], 0
        for path in self._paths:
            size += len(path) + 2
            if size > MAX_HEADER_CHARACTERS:
                break
            kept.append(path)
        left = len(self._paths) - len(kept) + self._num_more
        return ", ".join([*kept, f"+{left}"] if left else kept)
