"""Helpers for tests of the engine client: calls, whole answers, and an engine process with injected faults."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.runtime.calls.tasks import Generate
from antiphon.runtime.process.client import EngineClient, EngineState
from support.engine.forked_engine import ForkedClient, ForkedEngineProcess
from support.models.tiny_model import write_bert
from support.waiting import PATIENCE_SECONDS, wait_until_async

OPTIONS: dict[str, Any] = dict(kv_bytes=8 << 20, key_type="fp32", value_type="fp32", max_running=40, max_waiting=64)

#: First prompt tokens that trigger a fault in the faulty engine.
RAISE, HANG, EXIT, HANG_HARD, LOST = 201, 202, 203, 204, 205
SLOW, GO = "slow", "go"
#: Name of a file that the engine process creates in a slow model's folder when it begins to load the model.
BEGUN = "begun"
#: Name of a file in a model's folder that makes the engine process exit while loading the model.
DEADLY = "deadly"

FAULTS = f"""
import ctypes, os, pathlib, sys, time
import antiphon.engine.core as core
import antiphon.runtime.frontend.front_end as front_end
from antiphon.errors import DeviceError

step = core.EngineCore.step
load_model = front_end.load_model

class LostDevice:
    def submit(self, plan):
        raise DeviceError("cuda:0 failed: an illegal memory access")

def faulty_step(self):
    for slot in self.slots.values():
        for request in slot.scheduler.requests():
            first = request.prompt[0]
            if first == {RAISE}:
                raise RuntimeError("the kernel is on fire")
            if first == {LOST}:
                slot.executor = LostDevice()
            if first == {HANG}:
                time.sleep(1000)
            if first == {EXIT}:
                print("no more memory of any kind", file=sys.stderr, flush=True)
                os._exit(7)
            if first == {HANG_HARD}:
                print("stuck", file=sys.stderr, flush=True)
                ctypes.PyDLL(None).sleep(1000)  # holding the interpreter
    return step(self)

def slow_load(reference, **options):
    if pathlib.Path(reference, {DEADLY!r}).exists():
        os._exit(9)
    go = pathlib.Path(reference, {GO!r})
    if {SLOW!r} in reference:
        pathlib.Path(reference, {BEGUN!r}).touch()
    while {SLOW!r} in reference and not go.exists():
        time.sleep(0.01)
    return load_model(reference, **options)

core.EngineCore.step = faulty_step
front_end.load_model = slow_load
"""


class FaultyProcess(ForkedEngineProcess):
    before = FAULTS


class FaultyClient(ForkedClient):
    """Client whose engine processes fail on certain prompts and models."""

    process_class = FaultyProcess


_numbers = itertools.count(1)


@dataclass
class Answer:
    """A complete answer: one of the call's `n` samples."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    end: Ended | None = None


def call(prompt: list[int], model: str = "tiny", n: int = 1, **details: Any) -> Generate:
    """Build a call with a unique id by default; `details` are fields of the call or of its sampling parameters."""
    own = {key: details.pop(key) for key in ("priority", "timeout", "grammar", "cache_salt", "id") if key in details}
    own.setdefault("id", f"call-{next(_numbers)}")
    return Generate(model=model, prompt=prompt, params=unchecked(SamplingParams, **details), n=n, **own)


def unchecked(cls: type[Any], **fields: Any) -> Any:
    """Build a dataclass without its validation, as if another program had sent the values."""
    made = object.__new__(cls)
    for own in dataclasses.fields(cls):
        made_by = own.default_factory
        default = own.default if made_by is dataclasses.MISSING else made_by()
        object.__setattr__(made, own.name, fields.pop(own.name, default))
    assert not fields, fields
    return made


async def answers(client: EngineClient, asked: Generate) -> list[Answer]:
    """Read a call to its end; return its samples in order."""
    found = [Answer() for _ in range(asked.n)]
    async for item in client.generate(asked):
        name, _, index = item.id.rpartition("/")
        assert name == asked.id
        answer = found[int(index)]
        assert answer.end is None, "something came after the end"
        if isinstance(item, TextDelta):
            answer.text += item.text
            answer.token_ids += item.token_ids
            answer.logprobs += item.logprobs
            answer.top_logprobs += item.top_logprobs
        else:
            answer.end = item
    assert all(answer.end is not None for answer in found)
    return found


async def until_free(client: EngineClient, *models: str) -> None:
    """Wait until the models have no running or waiting requests and own no blocks; by default the model `tiny`."""
    held: dict[str, int] = {}

    async def is_free() -> bool:
        figures = await client.figures()
        for model in models or ("tiny",):
            held.update({f"{model} {key}": figures[model][key] for key in ("running", "waiting", "blocks_owned")})
        return not any(held.values())

    await wait_until_async(is_free, "all requests to end and give their blocks back", seen=lambda: held)


async def until_state(client: EngineClient, state: EngineState) -> None:
    """Wait until the client is in `state`, even if only for a moment."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while client.state is not state:
                await client.wait_for_change()
    except TimeoutError:
        raise AssertionError(f"waited for the engine to be {state}; it is {client.state}: {client.cause}") from None


def write_encoder(folder: Path) -> Path:
    """Write a tiny encoder with random weights, so that different texts have different vectors; return its folder."""
    from safetensors.torch import load_file, save_file

    path = write_bert(folder)
    generator = torch.Generator().manual_seed(5)
    state = load_file(path / "model.safetensors")
    save_file({k: torch.randn(v.shape, generator=generator) for k, v in state.items()}, path / "model.safetensors")
    return path


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
