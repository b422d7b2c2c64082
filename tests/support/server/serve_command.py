"""`antiphon serve` in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx


class ServeCommand:
    """The running command, its standard error read as it comes.

    It has a folder of its own for files and batches unless it is given one: only one server at a time can use the
    default one.
    """

    def __init__(self, *arguments: str, before: str = "", folder: Path | None = None) -> None:
        code = f"{before}\nfrom antiphon.cli.app import main; main()"
        self._files = tempfile.TemporaryDirectory(prefix="antiphon-files-")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={"ANTIPHON_FILES_DIR": self._files.name, **os.environ},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    def text(self) -> str:
        return "".join(self.lines)

    def url(self) -> str:
        while not (found := re.search(r"https?://[\d.]+:\d+", self.text())):
            assert self.process.poll() is None and time.monotonic() - self.started < 60, self.text()
            time.sleep(0.01)
        return found[0]

    def wait_until_ready(self) -> None:
        while httpx.get(self.url() + "/readyz", timeout=60).status_code != 200:
            assert time.monotonic() - self.started < 180, self.text()
            time.sleep(0.05)

    def loaded_files(self) -> str:
        """The files in its memory, those of its engine's process not included."""
        return Path(f"/proc/{self.process.pid}/maps").read_text()

    def wait_for_end(self) -> int:
        """Exit code; all that it said is in `lines`."""
        code = self.process.wait(60)
        self._reader.join(60)
        self._files.cleanup()
        return code
