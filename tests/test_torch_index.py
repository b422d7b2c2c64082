"""The choice of PyTorch's build at installation: the CPU build where it is wanted and can be had, and never a wait."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "deploy" / "torch_index.py"
CPU_BUILD = "2.13.0+cpu"


def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def torch_requirement() -> Requirement:
    (torch,) = (Requirement(text) for text in project()["dependencies"] if Requirement(text).name == "torch")
    return torch


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
    torch = torch_requirement()
    (newest,) = (Version(spec.version) for spec in torch.specifier if spec.operator == "<=")
    cpu = Version(f"{newest}+cpu")
    assert cpu in torch.specifier and cpu > newest
    assert Version(f"{newest.major}.{newest.minor + 1}.0") not in torch.specifier


@pytest.fixture
def cpu_index(tmp_path: Path) -> str:
    """PyTorch's index of CPU builds; where it cannot be reached, one with a wheel of the same metadata."""
    arguments = chosen("--build", "cpu").stdout.split()
    if arguments:
        return arguments[1]
    name = f"torch-{CPU_BUILD}"
    folder = tmp_path / "index" / "torch"
    folder.mkdir(parents=True)
    wheel = f"{name}-cp311-cp311-manylinux_2_28_x86_64.whl"
    needed = ("filelock", "typing-extensions>=4.10", "sympy>=1.13.3", "networkx>=2.5.1", "jinja2", "fsspec>=0.8.5")
    metadata = [
        "Metadata-Version: 2.1",
        "Name: torch",
        f"Version: {CPU_BUILD}",
        *(f"Requires-Dist: {n}" for n in needed),
    ]
    with zipfile.ZipFile(folder / wheel, "w") as archive:
        archive.writestr(f"{name}.dist-info/METADATA", "\n".join([*metadata, ""]))
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_28_x86_64\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")
    (folder / "index.html").write_text(f'<a href="{wheel.replace("+", "%2B")}">{wheel}</a>')
    return folder.parent.as_uri()


@pytest.mark.slow
def test_the_readmes_line_for_the_cpu_selects_no_cuda_package_on_x86(cpu_index: str, tmp_path: Path) -> None:
    """As on a machine whose pip has no settings: neither other indexes nor folders of wheels."""
    environ = {
        name: value for name, value in os.environ.items() if name not in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL")
    }
    environ["PIP_CONFIG_FILE"] = os.devnull
    platforms = ["manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(5, 40))]
    report = tmp_path / "report.json"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--quiet",
        "--report",
        str(report),
    ]
    command += ["--target", str(tmp_path / "target"), "--python-version", "3.11", "--only-binary", ":all:"]
    command += [word for platform in platforms for word in ("--platform", platform)]
    command += [str(torch_requirement()), "--extra-index-url", cpu_index]
    subprocess.run(command, env=environ, check=True, timeout=550)
    chosen_packages = {
        package["metadata"]["name"].lower(): package["metadata"]["version"]
        for package in json.loads(report.read_text())["install"]
    }
    print(*(f"{name} {version}" for name, version in sorted(chosen_packages.items())), sep="\n")
    assert chosen_packages["torch"] == CPU_BUILD
    assert [name for name in chosen_packages if re.match("nvidia|cuda|triton", name)] == []


def test_the_script_the_readme_and_the_image_name_one_index() -> None:
    (index,) = re.findall(r'^CPU_INDEX = "(.*)"$', SCRIPT.read_text(), re.MULTILINE)
    (line,) = (line for line in (ROOT / "README.md").read_text().splitlines() if "--extra-index-url" in line)
    assert shlex.split(line, comments=True)[-2:] == ["--extra-index-url", index]
    for user in ("Makefile", "deploy/Dockerfile"):
        assert "torch_index.py --build" in (ROOT / user).read_text()
