"""`antiphon serve`: models behind OpenAI's API."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from antiphon import environment
from antiphon.aligned import aligned
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.serving.flags import plain, takes_server_options
from antiphon.device_names import CPU

if TYPE_CHECKING:
    from antiphon.runtime.residency.resident import Resident
    from antiphon.server.serving.setup.launch_plan import LaunchPlan


@takes_server_options
def serve(**given: Any) -> None:
    """Serve models over HTTP with OpenAI's API. On Ctrl-C or SIGTERM, running requests finish first.

    Every option can also be set in a configuration file or an environment variable such as ANTIPHON_PORT; flags win.
    """
    started = time.monotonic()
    environment.home()  # one that cannot be used is an error before anything starts
    from antiphon.cli.serving.browser import open_page
    from antiphon.runtime.loading.draft_reference import check_speculation
    from antiphon.server.apis.wyoming.listener import WyomingListener
    from antiphon.server.launch import run_server
    from antiphon.server.serving.setup.launch_plan import LaunchPlan
    from antiphon.server.serving.setup.settings import Settings
    from antiphon.server.web.access.hosts import is_loopback
    from antiphon.server.web.http.listener import bind
    from antiphon.server.web.telemetry.logs import set_up_logs

    with usage_errors():
        settings = Settings.gather(plain(given), given["config"])
        check_speculation(settings["speculate"])
    plan = LaunchPlan.of(settings)
    host = settings["host"]
    if plan.config.keys is None and not is_loopback(host):
        print(f"antiphon: listening on {host} without API keys: anyone who can reach it can use it", file=sys.stderr)
    wyoming = plan.wyoming
    if wyoming is not None and wyoming.is_open:
        print(f"antiphon: Wyoming has no keys: anyone who can reach {wyoming.host} can use it", file=sys.stderr)
    set_up_logs(settings["log_requests"], settings["log_format"])
    table = StartTable(plan, started)
    run_server(
        plan.config,
        plan.engine,
        bind(host, settings["port"]),
        grace_seconds=settings["grace"],
        on_listening=table.listening,
        on_model=table.add,
        on_page=open_page if settings["open"] else None,
        tls=plan.tls,
        watchdog_seconds=settings["watchdog"],
        wyoming=None
        if wyoming is None
        else WyomingListener(bind(wyoming.host, wyoming.port), wyoming.is_announced, table.listening_for_wyoming),
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process ends by itself now


class StartTable:
    """Where the time and memory of the start went, printed when the last model is loaded or has failed."""

    def __init__(self, plan: LaunchPlan, started: float) -> None:
        self._plan = plan
        self._started = started
        self._url = ""
        preloaded = {spec.name for spec in plan.config.models if spec.is_preloaded}
        self._num_left = len(preloaded) + sum(adapter.base in preloaded for adapter in plan.config.adapters)
        self._rows = [("", "STEP", "SECONDS", "MB")]
        self._failures: list[str] = []
        self._weight_bytes: Counter[str] = Counter()  # by device

    def listening(self, url: str) -> None:
        self._url = url
        self._rows.append(("server", "listening", self._seconds(), ""))
        names = ", ".join(spec.name for spec in self._plan.config.models if spec.is_preloaded)
        loading = f"; loading {names}" if names else ""
        _print(f"Antiphon is listening on {url}{loading}")
        if not self._num_left:
            _print(self.text())

    def listening_for_wyoming(self, url: str) -> None:
        _print(f"Wyoming is listening on {url}")

    def add(self, model: Resident) -> None:
        loaded = model.loaded
        if loaded is not None:
            self._weight_bytes[loaded.device] += loaded.weight_bytes
            for step, seconds in loaded.seconds.items():
                size = _megabytes(loaded.weight_bytes) if step == "weights" else ""
                self._rows.append((model.name, step, f"{seconds:.2f}", size))
        elif model.error is not None:
            self._rows.append((model.name, "failed", "", ""))
            self._failures.append(f"{model.name} failed to load: {model.error}")
        else:
            self._rows.append((model.name, "not loaded", "", ""))
            self._failures.append(f"{model.name} is not loaded: no memory left beside the others; loaded on first use")
        self._num_left -= 1
        if not self._num_left:
            has_failed = any(step == "failed" for _, step, _, _ in self._rows)
            self._rows.append(("server", "not ready" if has_failed else "ready", self._seconds(), ""))
            _print(self.text())

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started:.2f}"

    def text(self) -> str:
        """The table, below it one line per model that is not loaded, the memory, and the address."""
        rows = [*self._rows, ("KV cache", "reserved", "", _megabytes(self._plan.kv_bytes))]
        lines = list(aligned(rows, left={0, 1}))
        weights, cache = self._weight_bytes.pop(CPU, 0), self._plan.kv_bytes
        lines += self._failures
        lines.append(
            f"memory: weights {_megabytes(weights)} MB + KV cache {_megabytes(cache)} MB = "
            f"{_megabytes(weights + cache)} MB of {_megabytes(self._plan.memory_bytes)} MB"
        )
        lines += [f"{device}: weights {_megabytes(size)} MB" for device, size in self._weight_bytes.items()]
        lines.append(f"API: {self._url}/v1")
        lines.append(f"web page: {self._url}")
        return "\n".join(lines)


def _megabytes(size: int) -> str:
    """In the unit of --memory."""
    return f"{size / (1 << 20):,.1f}" if size < 10 << 20 else f"{size / (1 << 20):,.0f}"


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
