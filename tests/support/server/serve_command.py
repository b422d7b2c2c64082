"""`antiphon serve` in a process of its own."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from pathlib import Path

import httpx

from support.programs.command_line import PROGRAM
from support.programs.forks import SERVER_MODULES, template


class ServeCommand:
    """The running command, its standard error read as it comes.

    It has a folder of its own for files and batches unless it is given one: only one server at a time can use the
    default one.
    """

    def __init__(self, *arguments: str, before: str = "", folder: Path | None = None) -> None:
        self._files = tempfile.TemporaryDirectory(prefix="antiphon-files-")
        self.started = time.monotonic()
        self.lines: list[str] = []
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=[reading], daemon=True)
        self._reader.start()
        variables = {"ANTIPHON_FILES_DIR": self._files.name, **os.environ}
        with open(os.devnull, "r+") as nothing:
            streams = (nothing.fileno(), nothing.fileno(), writing)
            code = f"{before}\n{PROGRAM}"
            self.process = template(*SERVER_MODULES).start(code, ["serve", *arguments], streams, variables, folder)
        os.close(writing)

    def _read(self, errors: int) -> None:
        with open(errors) as lines:
            for line in lines:
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
