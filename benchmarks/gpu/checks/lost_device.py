"""Plant an illegal memory access: an embedded engine must report it and stop, a server must restart its engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from antiphon.errors import AntiphonError
from checks.outcome import Outcome, Subject
from checks.schemas import SMALL
from support.models.random_files import write_random_model
from support.programs.server_process import ServerProcess, antiphon_server

EMBEDDED, SERVED = "a lost device, embedded", "a lost device, served"
PLANTED, INNOCENT = [201], [5, 6, 7]
SECONDS = 120.0
#: Content of sitecustomize.py, which Python runs before everything else.
CUSTOMIZE = """\
import sys

if any("antiphon.runtime.process.worker" in argument for argument in sys.orig_argv):
    import planted

    planted.install()
"""
SERVER_PACKAGES = ("fastapi", "uvicorn", "msgspec", "zmq", "orjson")


def check(subject: Subject) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory() as name:
        folder = write_random_model(Path(name) / "small", SMALL)
        yield embedded(subject.device.name, folder)
        missing = [package for package in SERVER_PACKAGES if find_spec(package) is None]
        if missing:
            yield Outcome(SERVED, None, f"not installed: {', '.join(missing)}")
        else:
            yield served(subject.device.name, folder)


def cause_on(device: str) -> str:
    return "illegal memory access" if device.startswith("cuda") else "planted"


def embedded(device: str, folder: Path) -> Outcome:
    """Run in another process, since a lost device is lost to its whole process."""
    script = Path(__file__).with_name("planted.py")
    command = [sys.executable, str(script), device, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    try:
        said = json.loads(ended.stdout)
    except json.JSONDecodeError:
        return Outcome(EMBEDDED, False, f"no answer, exit status {ended.returncode}: {ended.stderr[-300:]}")
    clear = [name for name in ("planted", "after") if "the engine stopped: DeviceError" in said[name]]
    passed = clear == ["planted", "after"] and cause_on(device) in said["planted"] and bool(said["before"])
    return Outcome(EMBEDDED, passed, said["planted"])


def served(device: str, folder: Path) -> Outcome:
    options = ("--device", device, "--kv-memory", "64")
    with _planted_processes(), antiphon_server(str(folder), *options) as server:
        before, engine = _ask(server, folder.name, INNOCENT), server.engine_pid()
        broken = _ask(server, folder.name, PLANTED)
        begun = time.monotonic()
        restarted = _wait_for_engine(server, engine)
        seconds = time.monotonic() - begun
        after = _ask(server, folder.name, INNOCENT) if restarted else (0, "the engine was not restarted")
    passed = before == after and before[0] == 200 and broken[0] >= 500 and cause_on(device) in broken[1]
    figures = f"{broken[0]}: {broken[1][:200]}; a new engine after {seconds:.1f} s answers {after[0]}"
    return Outcome(SERVED, passed, figures)


@contextmanager
def _planted_processes() -> Iterator[None]:
    """Plant the fault in engine processes started in this block."""
    kept = os.environ.get("PYTHONPATH")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(CUSTOMIZE)
        paths = [folder, str(Path(__file__).parent), *([kept] if kept else [])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        try:
            yield
        finally:
            if kept is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = kept


def _ask(server: ServerProcess, model: str, prompt: list[int]) -> tuple[int, str]:
    """Return the status and the text or error of an answer."""
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True})
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.url}/v1/completions", body.encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, json.load(answer)["choices"][0]["text"]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")


def _wait_for_engine(server: ServerProcess, before: int) -> bool:
    """Wait until another engine process has loaded the model; return False on a timeout."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{server.url}/readyz", timeout=5) as answer:
                if answer.status == 200 and server.engine_pid() != before:
                    return True
        except (urllib.error.URLError, AntiphonError, OSError):
            pass
        time.sleep(0.1)
    return False
