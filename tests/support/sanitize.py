"""Run tests with a native extension built with AddressSanitizer and UndefinedBehaviorSanitizer.

`python tests/support/sanitize.py [PYTEST ARGUMENTS]` runs the tests of the native operations, unless a path is given.
The extension is built under `build/sanitize`. A virtual environment beside it combines the installed packages, the
Python sources and that extension.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "sanitize"
SITE = FOLDER / "site"
BUILD_INPUTS = ("pyproject.toml", "CMakeLists.txt", "csrc")
#: Tests of the native operations; other tests call the same kernels through more Python. The long tests of attention,
#: ten times slower here, run once per instruction set; a second kind of encoder and programs that only exit are tested
#: elsewhere.
SELECTED = (
    "(native or recorded or fast_decode) and not (heads_are_read or sentence1 or interpreter_exits)"
    " and not (company and (window or softcap or sinks or 0.02 or 2.0))"
)
DEFAULT_TESTS = (
    "-n", "2", "--dist", "worksteal", "-k", SELECTED, "tests/ops/native", "tests/ops/sound", "tests/ops/conformance",
    "tests/executor/test_recorded.py", "tests/executor/test_fast_decode.py",
    "tests/models/test_model_adapters.py",
)  # fmt: skip
#: Leak detection is off: Python and PyTorch free much of their memory only at exit.
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")


def newest(*paths: Path) -> float:
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    return max((file.stat().st_mtime for file in files), default=0.0)


def build_extension() -> Path:
    """Return the path of the sanitized extension; rebuild it if its sources are newer."""
    existing = next(FOLDER.glob("_native*.so"), None)
    if existing is not None and existing.stat().st_mtime > newest(*(ROOT / name for name in BUILD_INPUTS)):
        return existing
    wheels = FOLDER / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    options = ["-C", "cmake.define.ANTIPHON_SANITIZE=ON", "-C", "cmake.build-type=Sanitize"]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), *options, "."]
    subprocess.run(command, cwd=ROOT, check=True)
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        names = [name for name in wheel.namelist() if Path(name).name.startswith("_native")]
        if not names:
            sys.exit("the wheel has no native extension: a C++ compiler is needed")
        built = FOLDER / Path(names[0]).name
        built.write_bytes(wheel.read(names[0]))
    return built


def make_environment(extension: Path) -> Path:
    """Create an environment that imports the sources with this extension; return its interpreter's path."""
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "antiphon", SITE / "antiphon", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy2(extension, SITE / "antiphon" / "ops")
    venv.create(FOLDER / "venv", with_pip=False)
    python = FOLDER / "venv" / "bin" / "python"
    query = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip())
    (packages / "sanitize.pth").write_text(f"{SITE}\n{sysconfig.get_path('purelib')}\n")
    return python


def main(arguments: list[str]) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    python = make_environment(build_extension())
    find = [subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip() for name in LIBRARIES]
    names_tests = any(Path(argument.partition("::")[0]).exists() for argument in arguments)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *(() if names_tests else DEFAULT_TESTS)]
    command += arguments
    return subprocess.run(command, cwd=ROOT, env=os.environ | ENVIRONMENT | {"LD_PRELOAD": " ".join(find)}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
