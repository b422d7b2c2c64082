"""`antiphon serve` in a process of its own."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from pathlib import Path

import httpx

from support.programs.command_line import PROGRAM
from support.programs.forks import ENGINE_MODULES, template
from support.waiting import wait_until

#: Run by a server before it is one: its descriptor 3 is a socket of a template.
FORK_ENGINES = f"""
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
from support.engine.forked_engine import use_template
use_template(3, BEFORE_ENGINE)
"""


class ServeCommand:
    """The running command, its standard error read as it comes.

    It has a folder of its own for files and batches unless it is given one: only one server at a time can use the
    default one.
    """

    def __init__(
        self,
        *arguments: str,
        before: str = "",
        before_engine: str = "",
        folder: Path | None = None,
        starts_engine: bool = False,
    ) -> None:
        """`before` and `before_engine` are code that runs before the command and in its engine processes.

        With `starts_engine`, the engine processes are no forks, and run nothing before.
        """
        self._files = tempfile.TemporaryDirectory(prefix="antiphon-files-")
        self.lines: list[str] = []
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=[reading], daemon=True)
        self._reader.start()
        variables = {"ANTIPHON_FILES_DIR": self._files.name, **os.environ}
        source = template(*ENGINE_MODULES)
        with open(os.devnull, "r+") as nothing, source.other_socket() as engines:
            streams = (nothing.fileno(), nothing.fileno(), writing, engines)
            use_forks = "" if starts_engine else FORK_ENGINES.replace("BEFORE_ENGINE", repr(before_engine))
            self.process = source.start(
                f"{use_forks}\n{before}\n{PROGRAM}", ["serve", *arguments], streams, variables, folder
            )
        os.close(writing)

    def _read(self, errors: int) -> None:
        with open(errors) as lines:
            for line in lines:
                self.lines.append(line)

    def text(self) -> str:
        return "".join(self.lines)

    def url(self) -> str:
        def address() -> str | None:
            found = re.search(r"https?://[\d.]+:\d+", self.text())
            assert found or self.process.poll() is None, f"it has ended: {self.text()}"
            return found and found[0]

        return str(wait_until(address, "the address of the server", seen=self.text))

    def wait_until_ready(self) -> None:
        url = self.url()
        ready = lambda: httpx.get(url + "/readyz", timeout=60)  # noqa: E731
        wait_until(lambda: ready().is_success, "the server to be ready", seen=lambda: (ready().text, self.text()))

    def wait_for_end(self) -> int:
        """Exit code; all that it said is in `lines`."""
        code = self.process.wait(60)
        self._reader.join(60)
        self._files.cleanup()
        return code
