"""`antiphon serve` in a process of its own."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from pathlib import Path

import httpx

from support.programs.command_line import PROGRAM
from support.programs.forks import ENGINE_MODULES, home_is_shared, template
from support.waiting import wait_until

#: Code that a server runs first: its descriptor 3 is a template's socket.
FORK_ENGINES = f"""
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
from support.engine.forked_engine import use_template
use_template(3, BEFORE_ENGINE)
"""

#: Code that hides a server from the commands of other tests.
UNLISTED = """
import contextlib
from antiphon.server import launch
launch.published = lambda server: contextlib.nullcontext()
"""


class ServeCommand:
    """Running `antiphon serve`, with its standard error in `lines`.

    Commands find it without an address only in a models folder that the test has set (ANTIPHON_HOME).
    Unless `ANTIPHON_FILES_DIR` is set, it has its own folder for files and batches, since only one server at a time can
    use the default folder.
    """

    def __init__(
        self,
        *arguments: str,
        before: str = "",
        before_engine: str = "",
        folder: Path | None = None,
        starts_engine: bool = False,
    ) -> None:
        """Start the command; `before` and `before_engine` are code to run before it and before its engine processes.

        With `starts_engine`, engine processes are not forked, and `before_engine` is ignored.
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
            unlisted = UNLISTED if home_is_shared() else ""
            use_forks = "" if starts_engine else FORK_ENGINES.replace("BEFORE_ENGINE", repr(before_engine))
            self.process = source.start(
                f"{use_forks}\n{unlisted}\n{before}\n{PROGRAM}", ["serve", *arguments], streams, variables, folder
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
        """Wait for the command to exit; return its exit code. `lines` then has all of its standard error."""
        code = self.process.wait(60)
        self._reader.join(60)
        self._files.cleanup()
        return code
