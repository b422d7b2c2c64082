"""`PromptSteps`: forward passes with prompts as kernels, lowered by the first step of each size."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.executor.device.batch import StepSize
from antiphon.executor.device.forward_graphs import REQUEST_SIZES, token_sizes
from antiphon.executor.device.rows import DeviceRows
from antiphon.ops.program import Recording
from antiphon.ops.triton.launch import card
from antiphon.ops.triton.program.gathering import gather_early
from antiphon.ops.triton.program.prompt_step import LoweredPromptStep, PromptWords


class PromptSteps:
    """Steps of one model, one at a time: they share a workspace, which has room for the largest step."""

    def __init__(
        self, recording: Recording, store: DeviceRows, max_rows: int, max_tokens: int, compute_type: torch.dtype
    ) -> None:
        """Reserve memory for up to `max_tokens` tokens and `max_rows` requests.

        Raise `UnrecordableError` if an instruction has no kernel.
        """
        self._recording, self._type = gather_early(recording), compute_type
        self._rows, self._card = store.as_step_rows(), card(store.device)
        self._pages = {layout.group.name: layout.block_tokens for layout in store.layouts}
        most = next((index for index, size in enumerate(REQUEST_SIZES) if size >= max_rows), len(REQUEST_SIZES) - 1)
        tokens, requests = token_sizes(max_tokens), REQUEST_SIZES[: most + 1]
        pairs = [(tokens[-1], count) for count in requests] + [(count, requests[-1]) for count in tokens]
        sizes = [StepSize(count, min(count, members), min(count, members)) for count, members in pairs]
        self._words = torch.zeros(max(sum(size.lengths) for size in sizes), dtype=torch.int32, device=store.device)
        self._memory: Tensor | None = None
        # Small sizes count too: offsets are chosen by size, so a smaller step may need more memory than a larger one.
        needed = max(self._make(size).workspace_bytes for size in sizes)
        self._memory = torch.empty(needed, dtype=torch.uint8, device=store.device)
        self._steps: dict[StepSize, LoweredPromptStep] = {}

    @property
    def workspace_bytes(self) -> int:
        return 0 if self._memory is None else self._memory.numel()

    def run(self, words: Tensor, size: StepSize) -> Tensor:
        """Compute the logits of a packed step, which the next step overwrites, and advance the lengths of its rows."""
        step = self.step(size)
        self._words[: len(words)].copy_(words)
        step.run()
        return step.logits

    def step(self, size: StepSize) -> LoweredPromptStep:
        """Return the step of a size, lowered on first use; it reads the words of the last `run`."""
        step = self._steps.get(size)
        if step is None:
            step = self._steps[size] = self._make(size)
        return step

    def forget(self) -> None:
        """Free the steps lowered so far."""
        self._steps.clear()

    def _make(self, size: StepSize) -> LoweredPromptStep:
        words = PromptWords(*self._words[: sum(size.lengths)].split(size.lengths))
        return LoweredPromptStep(self._recording, words, self._rows, self._pages, self._memory, self._type, self._card)
