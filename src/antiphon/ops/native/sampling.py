"""Sampling without sorting the vocabulary. A row's token depends neither on other rows nor on the number of threads."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.native.extension import extension
from antiphon.ops.reference import sampling as reference
from antiphon.ops.threads import default_threads
from antiphon.ops.types import SamplingRows


def sample(
    logits: Tensor, rows: SamplingRows, logprobs: bool = True, threads: int | None = None, variant: int = 0
) -> tuple[Tensor, Tensor | None]:
    parameters = (rows.temperature, rows.top_k, rows.top_p, rows.min_p, rows.seed, rows.index)
    if any(not value.is_cpu for value in parameters):
        return reference.sample(logits, rows, logprobs)
    dtypes = (torch.float32, torch.int32, torch.float32, torch.float32, torch.int64, torch.int64)
    kept = [value.to(dtype).contiguous() for value, dtype in zip(parameters, dtypes, strict=True)]
    count, vocabulary = logits.shape
    if any(len(value) != count for value in kept):
        raise ValueError(f"{count} rows of logits need as many of every parameter")
    logits = logits.float()
    if logits.stride(1) != 1:
        logits = logits.contiguous()
    tokens, found = torch.empty(count, dtype=torch.int64), torch.empty(count) if logprobs else None
    extension().sample(
        logits.data_ptr(), logits.stride(0), count, vocabulary, *(value.data_ptr() for value in kept),
        tokens.data_ptr(), 0 if found is None else found.data_ptr(), threads or default_threads(), variant,
    )  # fmt: skip
    return tokens, found
