"""Check whole models: their error from fp32 is at most 1.5 times the reference's in the same 16-bit type."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from antiphon import ops
from antiphon.executor.device.trial_rows import TrialRows
from antiphon.ops import Device
from checks.architectures import ARCHITECTURES, LARGE, LARGE_METADATA, Placed, build, half_type, own_backend
from checks.outcome import Outcome, Subject

MAX_RATIO = 1.5
#: Error of fp32 itself: below it, a ratio means nothing.
SMALLEST_ERROR = 1e-5
#: Numbers of rows for the one-row kernel, the tensor cores and the library; and tokens before the decoded token.
ROWS, CONTEXT = (1, 8, 80), 32
LARGE_CONTEXT = 16
#: Sizes without a card: a CPU without bf16 instructions multiplies bf16 slowly.
CPU_ROWS, CPU_CONTEXT = (1, 4), 4


@dataclass(frozen=True)
class Logits:
    prefill: Tensor
    decode: Tensor


def check(subject: Subject) -> Iterator[Outcome]:
    backend = own_backend(subject.device)
    is_card = subject.device.torch.type == "cuda"
    rows, context = (ROWS, CONTEXT) if is_card else (CPU_ROWS, CPU_CONTEXT)
    for name, metadata in ARCHITECTURES.items():
        yield compare(name, metadata, subject.device, backend, rows, context)
    if is_card:
        yield compare(LARGE, LARGE_METADATA, subject.device, backend, rows, LARGE_CONTEXT)


def compare(
    name: str, metadata: Mapping[str, Any], device: Device, backend: str, rows: tuple[int, ...], context: int
) -> Outcome:
    """Compare a model with the reference; each figure is the worst of all numbers of rows."""
    place, half = device.torch, half_type(backend)
    truth = build(metadata, "reference", place, torch.float32)
    reference = build(metadata, "reference", place, torch.bfloat16 if half is torch.float32 else half)
    ours = build(metadata, backend, place, half)
    worst = {"prefill": (0.0, 0.0, 0.0), "decode": (0.0, 0.0, 0.0)}
    for count in rows:
        size = (count, context + 1)
        tokens = torch.randint(truth.decoder.vocab_size, size, generator=torch.Generator().manual_seed(count))
        expected = logits_of(truth, tokens, device)
        found = [logits_of(model, tokens, device) for model in (ours, reference)]
        for part in worst:
            own, other = (error(getattr(logits, part), getattr(expected, part)) for logits in found)
            worst[part] = max(worst[part], (own / max(other, SMALLEST_ERROR), own, other))
    figures = "; ".join(
        f"{part}: {ratio:.2f} × the reference's ({own:.1e}, {other:.1e})" for part, (ratio, own, other) in worst.items()
    )
    passed = all(ratio <= MAX_RATIO for ratio, _, _ in worst.values())
    return Outcome(f"error, {name}", passed, figures)


def logits_of(model: Placed, tokens: Tensor, device: Device) -> Logits:
    """Return the logits of all but the last column of tokens in a step, and of the last column in the next."""
    count, length = tokens.shape
    decoder = model.decoder
    with ops.use_backend(model.backend), torch.inference_mode():
        requests = TrialRows(decoder, count, length, model.dtype, model.place)
        prefill = decoder.forward(requests.batch(tokens[:, :-1]), requests.cache).float()
        if model.backend == "triton":
            decode = lowered(model, requests, tokens[:, -1], device)
        else:
            decode = decoder.forward(requests.batch(tokens[:, -1:], length - 1), requests.cache)
    return Logits(prefill, decode.float())


def lowered(model: Placed, requests: TrialRows, tokens: Tensor, device: Device) -> Tensor:
    """Return the logits from the kernels of the step's graph."""
    from antiphon.executor.device.measured_step import MeasuredStep

    own = replace(device, compute_type=model.dtype)
    step = MeasuredStep(model.decoder, own, requests, requests.max_tokens - 1, model.decoder.vocab_size)
    return step.run(tokens)


def error(found: Tensor, expected: Tensor) -> float:
    """Return the relative error over all logits; infinite if a logit is not a number."""
    relative = float((found - expected).norm() / expected.norm())
    return relative if math.isfinite(relative) else math.inf
