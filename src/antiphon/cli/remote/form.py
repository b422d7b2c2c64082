"""Multipart form with a file, sent in pieces so that a recording is never in memory as a whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

PIECE_BYTES = 1 << 18


class Form:
    """Form whose file is read from the stream's position to its end.

    `fields` are pairs, since a name may be repeated. `on_sent` receives the share of the file that has been read.
    """

    def __init__(
        self,
        fields: Sequence[tuple[str, str]],
        file_name: str,
        stream: BinaryIO,
        on_sent: Callable[[float], None] = lambda _: None,
    ) -> None:
        boundary = f"antiphon-{secrets.token_hex(16)}"
        self.content_type = f"multipart/form-data; boundary={boundary}"
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
            for name, value in fields
        ]
        disposition = f'form-data; name="file"; filename="{_quoted(file_name)}"'
        parts.append(
            f"--{boundary}\r\nContent-Disposition: {disposition}\r\n"
            "Content-Type: application/octet-stream\r\n\r\n".encode("utf-8", "replace")
        )
        self._start = b"".join(parts)
        self._end = f"\r\n--{boundary}--\r\n".encode()
        self._stream = stream
        self._on_sent = on_sent
        self._file_bytes = _size(stream)
        self.size = len(self._start) + self._file_bytes + len(self._end)

    def __iter__(self) -> Iterator[bytes]:
        yield self._start
        left = self._file_bytes
        while left:
            piece = self._stream.read(min(PIECE_BYTES, left))
            if not piece:
                raise OSError("the file became shorter while it was sent")
            left -= len(piece)
            yield piece
            self._on_sent(1 - left / self._file_bytes)
        yield self._end


def _size(stream: BinaryIO) -> int:
    here = stream.tell()
    end = stream.seek(0, os.SEEK_END)
    stream.seek(here)
    return end - here


def _quoted(name: str) -> str:
    """Escape a file name as browsers do in a form."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
