"""Fixtures that several rooms share."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from support.http_clients import share_tls_context, wait_patiently
from support.models.tiny_model import tiny_gguf, tiny_llama  # noqa: F401  (fixtures for every test)
from support.times import TestTimes, mark_reasons

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

    from support.browser.chromium import SharedBrowser
    from support.server.pool import ServerPool

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell, which has its jobs ignore Ctrl-C; programs that tests start must not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Started by nohup. A handler that does nothing is as good, and programs that tests start do not inherit it.
    signal.signal(signal.SIGHUP, lambda *_: None)

#: Seconds that a test may take under `--soak`.
SOAK_SECONDS = 1800


def take_own_cores() -> None:
    """Leave the other cores to the other workers of xdist.

    Threads of an engine wait for one another after every operation. On cores that two workers share, they mostly wait
    for a thread that is not running. Programs that tests start run on the same cores as the worker.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or not hasattr(os, "sched_setaffinity"):
        return
    cores, count = sorted(os.sched_getaffinity(0)), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    if len(cores) >= count:
        os.sched_setaffinity(0, cores[int(worker.removeprefix("gw")) :: count])


take_own_cores()
torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else min(2, os.cpu_count() or 1))

# An example, or the drawing of one, may be held up by whatever else the machine does. Only a soak draws other examples
# each time.
settings.register_profile("soak", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("antiphon", settings.get_profile("soak"), derandomize=True)

share_tls_context()
wait_patiently()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="Run random tests at their full length.")
    parser.addoption("--seed", type=int, default=0, help="Seed of random tests.")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="Run files, and tests within each, in random order.")
    parser.addoption("--until", type=float, metavar="TIME", help="Skip tests that have not begun by this Unix time.")
    parser.addoption("--times", type=Path, metavar="FILE", help="Write the seconds of each test to a JSON file.")
    parser.addoption("--screenshots", type=Path, help="Save pictures of the web page in this folder.")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("soak" if config.getoption("--soak") else "antiphon")
    if config.getoption("--times") is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(TestTimes(config.getoption("--times")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files with a long test first, or shuffle all; under `--soak`, tests may exceed the usual time limit."""
    mark_reasons(items)
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)
    seed = config.getoption("--shuffle")
    if seed is not None:
        shuffle(items, seed)
    if config.getoption("--soak"):
        for item in items:
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS))


def shuffle(items: list[pytest.Item], seed: int) -> None:
    """Shuffle files, and tests within each file; the tests of a file stay together, for its fixtures."""
    source = random.Random(seed)
    order = {path: source.random() for path in sorted({item.path for item in items})}
    source.shuffle(items)
    items.sort(key=lambda item: order[item.path])


def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.getoption("--until")
    if until is not None and time.time() >= until:
        pytest.skip("the time of this soak is over")
    # What draws without a generator of its own draws the same whatever ran before.
    seed = item.config.getoption("--seed")
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.manual_seed(seed)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Undo what a command that ran in the test's own process set up for its log."""
    root = logging.getLogger("antiphon")
    before = [*root.handlers], root.level, root.propagate
    yield
    if before != (root.handlers, root.level, root.propagate):
        root.handlers, root.propagate = before[0], before[2]
        root.setLevel(before[1])


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of a random test: 0, and another in each round of `make soak`."""
    return int(request.config.getoption("--seed"))


@pytest.fixture(scope="session", params=[False, pytest.param(True, marks=pytest.mark.soak)], ids=["few", "many"])
def soak(request: pytest.FixtureRequest) -> bool:
    """Return whether a test runs at its full length, which is a soak test; it exists at a short length too."""
    return bool(request.param)


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


@pytest.fixture(scope="session")
def shared_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBrowser]:
    """A browser whose microphone says the sentence with "country"."""
    from support.browser.chromium import SharedBrowser
    from support.browser.talking import sentence
    from support.sound.sounds import wav_bytes

    recording = tmp_path_factory.mktemp("microphone") / "sentence.wav"
    recording.write_bytes(wav_bytes(sentence("country", before=0.5, after=1.0)))
    browser = SharedBrowser(recording)
    yield browser
    browser.close()


@pytest.fixture
def profile(shared_browser: SharedBrowser) -> Iterator[BrowserContext]:
    with shared_browser.in_use() as used:
        yield used
