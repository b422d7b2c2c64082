"""The files of a release: what they contain, and the wheel on a machine without a compiler or a newer processor."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from antiphon import __version__
from antiphon.ops import native

ROOT = Path(__file__).parents[1]
#: Instruction sets whose kernels every wheel for a processor has.
INSTRUCTION_SETS = {
    "x86_64": {"baseline", "avx2", "avx512", "avx512vnni", "amx"},
    "aarch64": {"baseline", "dotprod"},
    "arm64": {"baseline", "dotprod"},
}
#: Processors that the emulator knows, and the best instruction set that the extension must choose on each.
EMULATED = {"Haswell": "avx2", "Nehalem": "baseline", "qemu64": "baseline"}
QUESTION = "What is the capital of France? Answer in one sentence."

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not native.available(), reason="a wheel needs a C++ compiler"),
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source archive and the wheel, written by `make wheel`."""
    folder = tmp_path_factory.mktemp("release")
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    made = subprocess.run(
        ["make", "wheel", f"DIST={folder}"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    oldest = re.search(r"\.whl: (glibc|macOS) \d+\.\d+ or newer$", made.stdout, re.MULTILINE)
    assert oldest is not None, made.stdout[-2000:]
    return folder


@pytest.fixture(scope="module")
def wheel(release: Path) -> Path:
    (wheel,) = release.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def extension(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's extension as a file."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if re.match(r"antiphon/ops/_native\b", name))
        return Path(archive.extract(name, tmp_path_factory.mktemp("extension")))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel; the packages that it needs are those of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    programs = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return programs


def sources(*folders: str) -> set[str]:
    """The files of folders that git has or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listing.stdout.split("\0") if (ROOT / name).is_file()}


@pytest.mark.long("makes the wheel, from compiled objects where `make test` left them")
def test_the_source_archive_has_what_the_wheel_is_made_of(release: Path) -> None:
    top = f"antiphon-{__version__}"
    with tarfile.open(release / f"{top}.tar.gz") as archive:
        names = {member.name.removeprefix(f"{top}/") for member in archive if member.isfile()}
    single = {"CHANGELOG.md", "CMakeLists.txt", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert names == sources("csrc", "licences", "src") | single


def test_the_wheel_has_the_package_its_kernels_and_the_licences(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    about = f"antiphon-{__version__}.dist-info"
    own, described = {name for name in names if not name.startswith(about)}, {name for name in names if about in name}
    (extension,) = own - {name.removeprefix("src/") for name in sources("src")}
    assert extension.startswith("antiphon/ops/_native.") and len(own) == len(sources("src")) + 1
    licences = {f"{about}/licenses/{name}" for name in {"LICENSE"} | sources("licences")}
    assert licences <= described
    assert "linux_" not in wheel.name.replace("manylinux_", "")


def test_the_extension_has_the_kernels_of_every_instruction_set(extension: Path) -> None:
    names = {name.decode() for name in re.findall(rb"(?<=\0)[a-z0-9]{3,12}(?=\0)", extension.read_bytes())}
    assert INSTRUCTION_SETS[platform.machine()] <= names


@pytest.mark.skipif(shutil.which("nm") is None, reason="there is no nm here")
def test_kernels_share_no_function_with_code_for_older_processors(release: Path) -> None:
    """The linker keeps one copy of a weak function, possibly one with instructions that an older processor lacks."""
    objects = [
        path
        for folder in (ROOT / "build").glob(f"cp{sys.version_info.major}{sys.version_info.minor}-*/CMakeFiles/*.dir")
        if not folder.name.startswith(("_native", "nanobind"))
        for path in folder.rglob("*.o")
    ]
    assert len(objects) > 15
    listing = subprocess.run(["nm", "--demangle", *objects], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^[0-9a-f]+ [Ww] .*", listing, re.MULTILINE) == []


@pytest.mark.weights
@pytest.mark.long("starts the installed program, which imports torch, three times")
def test_the_installed_wheel_answers_with_native_kernels_where_there_is_no_compiler(
    installed: Path, tmp_path: Path
) -> None:
    kept = {name: os.environ[name] for name in ("ANTIPHON_HOME", "HOME", "HF_HOME") if name in os.environ}
    environment = {"PATH": str(installed), **kept}

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [installed / program, *arguments]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result

    assert run("antiphon", "--version").stdout == f"antiphon {__version__}\n"
    source = "from antiphon import ops; print(ops.__file__); print(ops.active_backend().name, *ops.native.variants())"
    path, backend = run("python", "-c", source).stdout.splitlines()
    assert Path(path).is_relative_to(installed.parent)
    assert backend.split() == ["native", *native.variants()]
    answer = run("antiphon", "run", "smollm2-135m", QUESTION, "--temperature", "0", "--local")
    assert "Paris" in answer.stdout
    assert "without native kernels" not in answer.stderr


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs the emulator qemu-x86_64")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the emulated processors are x86")
@pytest.mark.parametrize("processor", EMULATED)
def test_an_older_processor_gets_the_best_kernels_that_it_can_run(extension: Path, processor: str) -> None:
    source = (
        "from importlib.util import module_from_spec, spec_from_file_location as located\n"
        f"spec = located('_native', {str(extension)!r})\n"
        "module = module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(module.variants()[0])"
    )
    command = ["qemu-x86_64", "-cpu", processor, sys.executable, "-S", "-c", source]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.split() == [EMULATED[processor]], result.stderr
