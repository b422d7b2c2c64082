"""Print the pip arguments that select PyTorch's CPU build, or nothing if they are unwanted or would not work.

On PyPI, PyTorch for Linux is a CUDA build of several gigabytes, useless on a machine without an NVIDIA driver. So pip
also gets PyTorch's index of CPU builds, if that index answers within a few seconds. If not, pip uses the indexes it is
configured for. The Makefile and the Dockerfile call this script; it needs only the standard library.

    pip install . $(python deploy/torch_index.py)
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import threading
import urllib.request
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def has_nvidia_driver() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def answers(index: str, seconds: float) -> bool:
    """Return whether the index lists PyTorch, within `seconds` in all: name look-ups have no timeout of their own."""
    found = threading.Event()
    ended = threading.Event()

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"{index}/torch/", timeout=seconds) as answer:
                if answer.status == 200:
                    found.set()
        except Exception:
            pass
        finally:
            ended.set()

    threading.Thread(target=ask, daemon=True).start()
    ended.wait(seconds)
    return found.is_set()


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the pip arguments that select PyTorch's CPU build.")
    parser.add_argument("--build", choices=("auto", "cpu", "cuda"), default="auto", help="Which build is wanted.")
    parser.add_argument("--index", default=CPU_INDEX, help="The index of CPU builds.")
    parser.add_argument("--seconds", type=float, default=8.0, help="How long to wait for the index.")
    given = parser.parse_args()
    if given.build == "cuda" or platform.system() != "Linux":
        return  # PyPI has CUDA builds for Linux only
    if given.build == "auto" and has_nvidia_driver():
        return
    if answers(given.index, given.seconds):
        print(f"--extra-index-url {given.index}")
    else:
        print(f"{given.index} cannot be reached; pip may install PyTorch's CUDA build instead", file=sys.stderr)


if __name__ == "__main__":
    main()
