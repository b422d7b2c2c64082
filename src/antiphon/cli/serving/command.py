"""`antiphon serve`: models behind OpenAI's API."""

from __future__ import annotations

import signal
import sys
import time
from typing import Any

from antiphon import environment
from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.serving.flags import takes_server_options
from antiphon.cli.serving.start_table import StartTable


@takes_server_options
def serve(**given: Any) -> None:
    """Serve models over HTTP with OpenAI's API. On Ctrl-C or SIGTERM, running requests finish first.

    Every option can also be set in a configuration file or an environment variable such as ANTIPHON_PORT; flags win.
    """
    started = time.monotonic()
    environment.home()  # raises if the folder is unusable, before anything starts
    from antiphon.cli.serving.browser import open_page, print_page
    from antiphon.runtime.loading.draft_reference import check_speculation
    from antiphon.server.apis.wyoming.listener import WyomingListener
    from antiphon.server.launch import run_server
    from antiphon.server.serving.setup.launch_plan import LaunchPlan
    from antiphon.server.serving.setup.settings import ServerSettings
    from antiphon.server.web.access.hosts import is_loopback
    from antiphon.server.web.http.listener import bind
    from antiphon.server.web.telemetry.logs import set_up_logs

    with usage_errors():
        settings = ServerSettings.gather(given, given["config"])
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
        on_page=open_page if settings["open"] else print_page,
        tls=plan.tls,
        watchdog_seconds=settings["watchdog"],
        wyoming=None
        if wyoming is None
        else WyomingListener(bind(wyoming.host, wyoming.port), wyoming.is_announced, table.listening_for_wyoming),
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process is exiting: a further Ctrl-C must not interrupt it
