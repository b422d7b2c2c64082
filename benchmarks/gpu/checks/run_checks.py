"""All checks by name, in the order in which they run."""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import torch

from checks import accuracy, fallbacks, greedy, idle, lost_device, memory, schemas
from checks.outcome import Check, Outcome, Subject

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        # Must be first, while the device has computed nothing else.
        "memory": memory.check,
        "accuracy": accuracy.check,
        "greedy": greedy.check,
        "schemas": schemas.check,
        "fallbacks": fallbacks.check,
        "idle": idle.check,
        "lost_device": lost_device.check,
    }
)


def run_checks(subject: Subject, names: Sequence[str], checks: Mapping[str, Check] = CHECKS) -> Iterator[Outcome]:
    """Yield the outcomes of the named checks; a check that raises fails, and the rest still run."""
    for name in names:
        begun = time.perf_counter()
        try:
            yield from checks[name](subject)
        except Exception as error:
            traceback.print_exc()
            yield Outcome(name, False, f"{type(error).__name__}: {error}".partition("\n")[0])
        print(f"{name}: {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
