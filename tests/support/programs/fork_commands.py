"""Shell commands `antiphon` and `python SCRIPT`, each of which runs in a fork of a template process.

A command is a small program that passes its arguments, variables, folder and standard streams to this process, which
forks the template. The command exits with the fork's status.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from support.programs.forks import ENGINE_MODULES, Fork, template

CODE = {
    "antiphon": "import sys; sys.argv[0] = 'antiphon'; from antiphon.cli.app import main; main()",
    "python": "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
}
CLIENT = f"""#!{sys.executable} -ISB
import json, os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(ADDRESS)
request = dict(program=PROGRAM, arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
socket.send_fds(link, [b" "], [0, 1, 2])
link.sendall(json.dumps(request).encode())
link.shutdown(socket.SHUT_WR)
status = int(link.recv(16) or 1)
sys.exit(status if status >= 0 else 128 - status)
"""


class ForkCommands:
    """Server of the commands, in threads of this process until it is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="antiphon-forks-")
        self._forks: list[Fork] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self._folder.name}/socket")
        self._listener.listen()
        threading.Thread(target=self._accept, name="fork-commands", daemon=True).start()

    def install(self, folder: Path) -> None:
        """Write the commands as executables into a folder."""
        for program in CODE:
            address = repr(self._listener.getsockname())
            (folder / program).write_text(CLIENT.replace("ADDRESS", address).replace("PROGRAM", repr(program)))
            (folder / program).chmod(0o755)

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with link:
            _, (given, out, errors), _, _ = socket.recv_fds(link, 1, 3)
            with link.makefile("rb") as file:
                request: dict[str, Any] = json.loads(file.read())
            code, folder = CODE[request["program"]], Path(request["folder"])
            streams = (given, out, errors)
            fork = template(*ENGINE_MODULES).start(code, request["arguments"], streams, request["environment"], folder)
            for stream in streams:  # the fork has its own copies
                os.close(stream)
            self._forks.append(fork)
            link.sendall(str(fork.wait()).encode())

    def close(self) -> None:
        """Terminate the commands that still run, and remove the socket."""
        self._listener.close()
        for fork in self._forks:
            fork.terminate()
        self._folder.cleanup()
