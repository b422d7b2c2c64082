"""The choice of PyTorch's build at installation: the CPU build where it is wanted and can be had, and never a wait."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "deploy" / "torch_index.py"


class Index(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/cpu/torch/" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def chosen(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PyPI has no CUDA build")


@needs_linux
def test_an_index_that_answers_is_given_to_pip(index: str) -> None:
    assert chosen("--build", "cpu", "--index", f"{index}/cpu").stdout.split() == ["--extra-index-url", f"{index}/cpu"]


def test_the_cuda_build_needs_no_arguments(index: str) -> None:
    result = chosen("--build", "cuda", "--index", f"{index}/cpu")
    assert result.stdout == result.stderr == ""


@needs_linux
def test_an_index_that_cannot_be_used_is_left_out(index: str, silent: str) -> None:
    unused = "http://127.0.0.1:1"
    for address, seconds in (
        (f"{index}/other", "20"),
        (unused, "20"),
        ("http://no-such-host.invalid", "20"),
        (silent, "1"),
    ):
        result = chosen("--build", "cpu", "--index", address, "--seconds", seconds)
        assert result.stdout == "" and f"{address} cannot be reached" in result.stderr


def test_the_cpu_build_satisfies_the_requirement_and_comes_before_the_cuda_build() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch,) = (Requirement(text) for text in project["dependencies"] if Requirement(text).name == "torch")
    (newest,) = (Version(spec.version) for spec in torch.specifier if spec.operator == "<=")
    cpu = Version(f"{newest}+cpu")
    assert cpu in torch.specifier and cpu > newest
    assert Version(f"{newest.major}.{newest.minor + 1}.0") not in torch.specifier


def test_the_script_the_readme_and_the_image_name_one_index() -> None:
    (index,) = re.findall(r'^CPU_INDEX = "(.*)"$', SCRIPT.read_text(), re.MULTILINE)
    assert f"--extra-index-url {index}\n" in (ROOT / "README.md").read_text()
    for user in ("Makefile", "deploy/Dockerfile"):
        assert "torch_index.py --build" in (ROOT / user).read_text()
