"""`antiphon serve`: models behind OpenAI's API."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from antiphon.cli.command import usage_errors
from antiphon.cli.server_flags import plain, takes_server_options

if TYPE_CHECKING:
    from antiphon.runtime.residency import Resident
    from antiphon.server.setup import Setup

LOCAL = ("127.0.0.1", "::1", "localhost")


@takes_server_options
def serve(**given: Any) -> None:
    """Serve models over HTTP with OpenAI's API. Ctrl-C or SIGTERM lets running requests finish, then stops.

    Every option can also stand in a configuration file, or in a variable such as ANTIPHON_PORT; a flag comes first.
    """
    started = time.monotonic()
    from antiphon.server.launch import bind, run_server
    from antiphon.server.logs import set_up_logs
    from antiphon.server.settings import Settings
    from antiphon.server.setup import Setup

    with usage_errors():
        settings = Settings.gather(plain(given), given["config"])
    setup = Setup.of(settings)
    host = settings["host"]
    if setup.config.keys is None and host not in LOCAL:
        print(f"antiphon: listening on {host} without API keys: anyone who reaches it can use it", file=sys.stderr)
    set_up_logs(settings["log_requests"])
    table = StartTable(setup, started)
    run_server(
        setup.config,
        setup.engine,
        bind(host, settings["port"]),
        grace_seconds=settings["grace"],
        on_listening=table.listening,
        on_model=table.add,
        tls=setup.tls,
        watchdog_seconds=settings["watchdog"],
    )


class StartTable:
    """Where start-up's time and memory went, printed when the last model is loaded or has failed."""

    def __init__(self, setup: Setup, started: float) -> None:
        self._setup = setup
        self._started = started
        self._url = ""
        self._num_left = sum(spec.is_preloaded for spec in setup.config.models)
        self._rows = [("", "PHASE", "SECONDS", "BYTES")]
        self._weight_bytes = 0

    def listening(self, url: str) -> None:
        self._url = url
        seconds = time.monotonic() - self._started
        self._rows.append(("server", "listening", f"{seconds:.2f}", ""))
        names = ", ".join(spec.name for spec in self._setup.config.models if spec.is_preloaded)
        loading = f"; loading {names}" if names else ""
        _print(f"antiphon listens on {url} (API at {url}/v1){loading}")
        if not self._num_left:
            _print(self.text())

    def add(self, model: Resident) -> None:
        loaded = model.loaded
        if loaded is None:
            why = f"failed: {model.error}" if model.error is not None else "no room: left for its first use"
            self._rows.append((model.name, why, "", ""))
        else:
            self._weight_bytes += loaded.weight_bytes
            for phase, seconds in loaded.seconds.items():
                size = f"{loaded.weight_bytes:,}" if phase == "weights" else ""
                self._rows.append((model.name, phase, f"{seconds:.2f}", size))
        self._num_left -= 1
        if not self._num_left:
            seconds = time.monotonic() - self._started
            self._rows.append(("server", "ready", f"{seconds:.2f}", ""))
            _print(self.text())

    def text(self) -> str:
        rows = [*self._rows, ("cache", "keys and values", "", f"{self._setup.kv_bytes:,}")]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = []
        for model, phase, seconds, size in rows:
            line = f"{model:<{widths[0]}}  {phase:<{widths[1]}}  {seconds:>{widths[2]}}  {size:>{widths[3]}}"
            lines.append(line.rstrip())
        weights, cache = self._weight_bytes / 1e6, self._setup.kv_bytes / 1e6
        lines.append(
            f"memory: weights {weights:,.0f} MB, keys and values {cache:,.0f} MB, {weights + cache:,.0f} MB in all, "
            f"of a budget of {self._setup.memory_bytes / 1e6:,.0f} MB"
        )
        lines.append(f"API: {self._url}/v1")
        return "\n".join(lines)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
