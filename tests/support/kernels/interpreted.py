"""Test runs under Triton's interpreter, which must be selected when a process starts."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

ROOT = Path(__file__).parents[3]


def run_interpreted(*arguments: str) -> None:
    """Run pytest with these arguments under the interpreter, in a new process; fail unless its tests pass."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


class _KeptPatches:
    """Result of patching that keeps the interpreter's changes to Triton's language."""

    def restore(self) -> None:
        pass


def keep_language_patched() -> None:
    """Make the interpreter patch Triton's language once, not at every call of a kernel's function.

    Patching is most of the interpreter's time, and the language can stay patched if every kernel is interpreted.
    """
    from triton.runtime import interpreter

    patch_language = interpreter._patch_lang
    if patch_language.__module__ != interpreter.__name__:
        return  # already replaced
    languages = (interpreter.tl, interpreter.tl.core)
    patched: set[frozenset[str]] = set()

    @cache
    def patch_once(function: FunctionType) -> _KeptPatches:
        """Patch once per set of language modules that a function uses: the patches depend on nothing else."""
        seen = frozenset(language.__name__ for language in languages if language in modules_of(function))
        if seen not in patched:
            patch_language(function)
            patched.add(seen)
        return _KeptPatches()

    interpreter._patch_lang = patch_once


def modules_of(function: FunctionType) -> list[ModuleType]:
    return [value for value in function.__globals__.values() if isinstance(value, ModuleType)]
