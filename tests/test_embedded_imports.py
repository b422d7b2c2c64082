"""The embedded engine runs where only torch, numpy and tokenizers are installed, with what these bring along."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import re
from pathlib import Path

import pytest

from support.programs.forks import template

INSTALLED = ("torch", "numpy", "tokenizers")

SCRIPT = """
import asyncio, json, sys
allowed, folder = set(json.loads(sys.argv[1])), sys.argv[2]

class Hide:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names and top != "antiphon":
            raise ModuleNotFoundError(f"not installed: {name}", name=name)

sys.meta_path.insert(0, Hide())
from antiphon import AsyncEngine, Engine, SamplingParams

params = SamplingParams(max_tokens=4, ignore_eos=True)
with Engine(folder, kv_bytes=8 << 20) as engine:
    [here] = engine.generate("hello", params)

async def main():
    async with AsyncEngine(folder, kv_bytes=8 << 20) as engine:
        [there] = await engine.generate("hello", params)
        return there

assert len(here.token_ids) == 4 and asyncio.run(main()).text == here.text
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def required(names: tuple[str, ...]) -> set[str]:
    """The installed distributions that these need, themselves among them."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        found.add(name)
        for line in metadata.requires(name) or []:
            match = re.match(r"[\w.-]+", line)
            if match is None or "extra ==" in line:
                continue
            try:
                metadata.version(match[0])
            except metadata.PackageNotFoundError:
                continue
            todo.append(match[0])
    return found


@pytest.mark.long("a model is loaded and asked in a process of its own")
def test_it_runs_without_the_packages_of_the_server(tiny_llama: Path) -> None:
    needed = required(INSTALLED)
    owners = metadata.packages_distributions()
    allowed = {
        package
        for package, names in owners.items()
        if any(re.sub(r"[-_.]+", "-", name).lower() in needed for name in names)
    }
    assert not allowed & {"msgspec", "zmq", "fastapi", "uvicorn", "orjson", "typer", "llguidance", "av"}
    run = template("torch", "numpy").run(SCRIPT, [json.dumps(sorted(allowed)), str(tiny_llama)])
    assert run.returncode == 0, run.stderr
    assert not set(run.stdout.split()) & {"msgspec", "zmq", "fastapi", "uvicorn", "orjson"}
