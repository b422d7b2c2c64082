"""Check that no operation of a decoder's step runs on the reference, through the backend or inside its functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from antiphon import ops
from antiphon.bench.random_models.random_model import random_model_of
from antiphon.engine.sampling_params import SamplingParams
from antiphon.ops import reference
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from checks.architectures import ARCHITECTURES
from checks.outcome import Outcome, Subject

NAME = "steps without the reference"
#: Operations for which a step may use PyTorch as the reference does: sums of two tensors.
ALLOWED = frozenset({"add"})
MODULES = (reference.attention, reference.product, reference.rows, reference.sampling, reference.logits)
#: Sampling parameters of a batch: greedy, sampled, filtered, with penalties, with log-probabilities.
PARAMS = (
    {}, {"temperature": 0.8}, {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.01},
    {"frequency_penalty": 1.0, "repetition_penalty": 1.2, "logit_bias": {5: 2.0}}, {"logprobs": 3},
)  # fmt: skip


def check(subject: Subject) -> Iterator[Outcome]:
    backend = ops.active_backend(subject.device.torch.type)
    if backend.name == "reference":
        yield Outcome(NAME, None, "the reference is the only backend here")
        return
    calls: Counter[str] = Counter()
    with counted(calls):
        for name, metadata in ARCHITECTURES.items():
            loaded = random_model_of(name, metadata, device=subject.device)
            config = EngineConfig(device=subject.device.name, kv_bytes=64 << 20, chunk_tokens=16, max_running=16)
            params = [SamplingParams(max_tokens=8, ignore_eos=True, **own) for own in PARAMS]
            with Engine(loaded, config=config) as engine:
                engine.generate([list(range(3, 40 + row)) for row in range(len(params))], params)
    fallen = sorted(
        name
        for name, function in backend.operations.items()
        if name not in ALLOWED and function.__module__.startswith("antiphon.ops.reference")
    )
    calls = Counter({name: count for name, count in calls.items() if name not in ALLOWED})
    used = sum(name not in fallen for name in backend.operations)
    figures = (
        f"{used} operations of {backend.name} used; falls: {', '.join(fallen) or 'none'}; calls of the reference: "
    )
    figures += ", ".join(f"{name} {count}" for name, count in sorted(calls.items())) or "none"
    yield Outcome(NAME, not fallen and not calls, figures)


@contextmanager
def counted(calls: Counter[str]) -> Iterator[None]:
    """Count the calls of the reference's functions, from any thread, while the block runs."""
    kept = [
        (module, name, getattr(module, name)) for module in MODULES for name in ops.OPERATIONS if hasattr(module, name)
    ]
    for module, name, function in kept:
        setattr(module, name, _counting(name, function, calls))
    try:
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)


def _counting(name: str, function: Callable[..., Any], calls: Counter[str]) -> Callable[..., Any]:
    @wraps(function)
    def count(*arguments: Any, **keywords: Any) -> Any:
        calls[name] += 1
        return function(*arguments, **keywords)

    return count
