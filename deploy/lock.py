"""Write `deploy/locks/`: the exact versions and hashes of every package in the Docker image.

    pip install uv && python deploy/lock.py            # newest versions that pyproject.toml allows
    python deploy/lock.py --keep                       # only what pyproject.toml's changes require

`packages.txt` holds the packages that Antiphon imports, `torch.txt` PyTorch's CUDA build with its own requirements, and
`build.txt` the packages that compile the extension. The hashes cover all files of a version, so the locks serve x86-64
and ARM. PyTorch's CPU builds are not on PyPI: their version is that of `torch.txt`, and their index has their hashes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "deploy" / "locks"
#: Python of the image, and the platform whose dependencies are locked.
PYTHON, PLATFORM = "3.12", "x86_64-manylinux_2_28"
HEADER = "# Written by deploy/lock.py; do not edit.\n"
#: Names of PyTorch and of the packages that only its CUDA build needs.
TORCH = re.compile(r"(torch|triton|cuda-|nvidia-)")


def compiled(requirements: list[str], lock: str) -> str:
    """Return the requirements with versions and hashes; versions in `lock` are kept if possible."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "requirements.in"), Path(folder, "lock.txt")
        source.write_text("\n".join(requirements))
        target.write_text(lock)
        options = f"--generate-hashes --python-version {PYTHON} --python-platform {PLATFORM}"
        quiet = "--no-config --quiet --no-header --no-annotate"
        command = ["uv", "pip", "compile", *options.split(), *quiet.split(), "--output-file", str(target), str(source)]
        subprocess.run(command, check=True)
        return target.read_text()


def entries(lock: str) -> list[str]:
    """Return the text of each requirement: its name and version, and its hashes on the following lines."""
    return re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", lock, re.MULTILINE | re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write deploy/locks/ from pyproject.toml.")
    parser.add_argument("--keep", action="store_true", help="Keep locked versions that pyproject.toml allows.")
    keep = parser.parse_args().keep
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    def kept(*names: str) -> str:
        return "".join((LOCKS / name).read_text() for name in names) if keep else ""

    LOCKS.mkdir(exist_ok=True)
    packages = entries(compiled(project["project"]["dependencies"], kept("packages.txt", "torch.txt")))
    # scikit-build-core adds CMake and Ninja if a machine lacks them.
    build = [*project["build-system"]["requires"], "cmake", "ninja"]
    locks = {
        "packages.txt": [entry for entry in packages if not TORCH.match(entry)],
        "torch.txt": [entry for entry in packages if TORCH.match(entry)],
        "build.txt": entries(compiled(build, kept("build.txt"))),
    }
    for name, lines in locks.items():
        (LOCKS / name).write_text(HEADER + "".join(lines))
        print(f"{name}: {len(lines)} packages", file=sys.stderr)


if __name__ == "__main__":
    main()
