"""Fixtures that several rooms share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, settings

from support.http_clients import share_tls_context
from support.models.tiny_model import tiny_gguf, tiny_llama  # noqa: F401  (fixtures for every test)

if TYPE_CHECKING:
    from support.server.pool import ServerPool

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell, which has its jobs ignore Ctrl-C; programs that tests start must not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Started by nohup. A handler that does nothing is as good, and programs that tests start do not inherit it.
    signal.signal(signal.SIGHUP, lambda *_: None)

#: The limit of a test under `--soak`.
SOAK_SECONDS = 4 * 3600

# Workers that run side by side have a core each: threads that wait for one another on a busy core cost much more.
torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else min(2, os.cpu_count() or 1))

# An example, or the drawing of one, may be held up by whatever else the machine does.
settings.register_profile("antiphon", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("antiphon")

share_tls_context()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="Run the long tests at their full length (hours).")
    parser.addoption("--screenshots", type=Path, help="Save pictures of the web page in this folder.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with a test that takes long come first. At their full length, tests may exceed the usual limit."""
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)
    if config.getoption("--soak"):
        for item in items:
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS))


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether tests of chance run at their full length, or at one that fits a pull request."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """The main file of a catalog model, fetched by the project's own code on first use."""

    def path(name: str) -> Path:
        from antiphon.weights.catalog.resolve import resolve

        return resolve(name).path

    return path


@pytest.fixture(scope="session")
def servers() -> Iterator[ServerPool]:
    """Servers for tests that need one with a certain configuration."""
    from support.server.pool import ServerPool

    pool = ServerPool()
    yield pool
    pool.close()
