"""Measure the time from the start of a process to the first token, without and with compiled kernels on disk.

    python benchmarks/gpu/start.py [--device cuda] [--shape qwen3-8b] [--model MODEL] [--rounds 1]

Without `--model`, random weights of a shape are written to a folder and read from it, so the files are in the page
cache. Each round starts two processes: the first with an empty kernel cache, the second with the cache that the first
has filled. A process loads the model and answers a prompt of 512 tokens; its clock begins before Python does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import torch

from antiphon.bench.random_models.random_model import SHAPES
from support.models.random_files import write_random_model

PROMPT_TOKENS = 512
#: Script of the timed process; its arguments are the model, the device and the time at which it was started.
PROCESS = """
import json, sys, time
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.frontend.engine import Engine

model, device, begun = sys.argv[1], sys.argv[2], float(sys.argv[3])
imported = time.time() - begun
with Engine(model, device=device) as engine:
    loaded = time.time() - begun
    engine.generate([list(range(100, 100 + %d))], SamplingParams(max_tokens=1, ignore_eos=True))
    first = time.time() - begun
print(json.dumps({"imported": imported, "loaded": loaded, "first token": first}))
"""


def start(model: str, device: str, cache: str) -> dict[str, float]:
    """Run a process; return the seconds from its start to the imported engine, the loaded model and the first token."""
    script = PROCESS % PROMPT_TOKENS
    command = [sys.executable, "-c", script, model, device, repr(time.time())]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"TRITON_CACHE_DIR": cache}, check=False
    )
    if ended.returncode:
        raise SystemExit(f"the process failed with status {ended.returncode}: {ended.stderr[-2000:]}")
    seconds: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return seconds


@contextmanager
def model_path(model: str | None, shape: str) -> Iterator[str]:
    if model is not None:
        yield model
        return
    with tempfile.TemporaryDirectory() as folder:
        yield str(write_random_model(Path(folder) / shape, SHAPES[shape]))


def report(name: str, rounds: list[dict[str, float]]) -> str:
    times = (f"{phase} {statistics.median(one[phase] for one in rounds):6.1f} s" for phase in rounds[0])
    return f"{name:22} {', '.join(times)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shape", choices=[*SHAPES], default="qwen3-8b")
    parser.add_argument("--model", help="a catalog name, file or folder; default: random weights")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    empty, kept = [], []
    with model_path(arguments.model, arguments.shape) as model:
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as cache:
                empty.append(start(model, arguments.device, cache))
                kept.append(start(model, arguments.device, cache))
    print(report("no compiled kernels", empty))
    print(report("compiled kernels", kept))


if __name__ == "__main__":
    main()
