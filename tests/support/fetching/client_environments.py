"""Environments for external clients with locked versions, created on first use under `build/clients`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOCKS = ROOT / "tests" / "clients" / "environments"
BUILD = ROOT / "build" / "clients"
#: Environment variables of programs in a client environment: no Python path, and no proxy to the server under test.
VARIABLES = os.environ | {"PYTHONPATH": "", "NO_PROXY": "127.0.0.1"}


def environment_python(name: str, base: str = sys.executable) -> Path:
    """Create an environment with the versions of `NAME.txt` unless it exists; return its interpreter's path."""
    lock = LOCKS / f"{name}.txt"
    folder = BUILD / f"{name}-{_digest(lock)}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
            "--requirement",
            str(lock),
        ]
        subprocess.run(install, check=True, env=VARIABLES)
        (folder / "complete").touch()
    return python


def node_modules(name: str) -> Path:
    """Install `NAME/package-lock.json` unless that is done; return the folder that holds `node_modules`."""
    locks = [LOCKS / name / file for file in ("package.json", "package-lock.json")]
    folder = BUILD / f"{name}-{_digest(*locks)}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for lock in locks:
            shutil.copy(lock, folder)
        install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(install, check=True, cwd=folder)
        (folder / "complete").touch()
    return folder


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
