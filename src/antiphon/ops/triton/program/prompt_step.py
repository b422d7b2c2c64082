"""A step with chunks of prompts, from its packed words to the logits, as launches that a CUDA graph can capture."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.program import instructions as program
from antiphon.ops.program.recording import Recording
from antiphon.ops.triton.kernel_launch import Call, Launch
from antiphon.ops.triton.kernels.rows.prompt import prompt_inputs
from antiphon.ops.triton.launch import Card, ceil_power
from antiphon.ops.triton.program.builder import DecodeInputs, GroupRows
from antiphon.ops.triton.program.decode import Lowerings, lower
from antiphon.ops.triton.program.prompt import (
    PromptBuilder,
    lower_add,
    lower_embed,
    lower_gather,
    lower_linear,
    lower_norm,
)
from antiphon.ops.triton.program.prompt_attention import lower_attention, lower_heads, lower_store
from antiphon.ops.triton.program.rows import StepRows
from antiphon.ops.triton.program.workspace import CompactWorkspace

#: Tokens per program of `prompt_inputs`.
INPUT_BLOCK = 256

_LOWERINGS: Lowerings = {
    program.EmbedInstruction: lower_embed,
    program.LinearInstruction: lower_linear,
    program.NormInstruction: lower_norm,
    program.HeadsInstruction: lower_heads,
    program.StoreInstruction: lower_store,
    program.PagedAttentionInstruction: lower_attention,
    program.AddInstruction: lower_add,
    program.GatherInstruction: lower_gather,
}


@dataclass(frozen=True)
class PromptWords:
    """Description of a step by the host, int32: T tokens of R requests, of which L have logits.

    Token -1 stands for the last token of its row; token -2 is padding and is not stored. A request without tokens is
    padding.
    """

    tokens: Tensor  # [T]
    positions: Tensor  # [T]
    token_rows: Tensor  # [T]
    query_start: Tensor  # [R + 1]
    seq_lens: Tensor  # [R], the new tokens included
    rows: Tensor  # [R]
    grown: Tensor  # [R], tokens of each request in the step
    logit_rows: Tensor  # [L]


class LoweredPromptStep:
    """Launches of a step that reads `words`; their lengths fix the step's size, their contents may change."""

    def __init__(
        self, recording: Recording, words: PromptWords, store: StepRows, pages: dict[str, int],
        memory: Tensor | None, compute_type: torch.dtype, card: Card,
    ) -> None:  # fmt: skip
        """Lower `recording`, the forward after `gather_early`; `pages` are the tokens per block by cache group.

        Without `memory` the step cannot run, and only counts its `workspace_bytes`.
        """
        if store.cross:
            raise UnrecordableError("the states of an encoder have no kernel in a step with prompts")
        workspace = CompactWorkspace(memory)
        tokens = len(words.tokens)
        ids = workspace.take((tokens,), torch.int32)
        slots = {name: workspace.take((tokens,), torch.int64) for name in recording.groups}
        groups = {name: GroupRows(store.table(name), store.width, words.seq_lens) for name in recording.groups}
        tensors = {
            "token_ids": ids, "positions": words.positions, "query_start": words.query_start,
            "logit_rows": words.logit_rows,
        }  # fmt: skip
        inputs = DecodeInputs(tensors, words.rows, groups)
        step = PromptBuilder(recording, tokens, len(words.logit_rows), inputs, slots, workspace, compute_type, card)
        self.launches: list[Launch | Call] = [
            _inputs(words, store, ids, slots[name], name, pages[name], index == 0)
            for index, name in enumerate(recording.groups)
        ]
        self.logits = lower(step, _LOWERINGS)
        self.launches += step.launches
        self.workspace_bytes = workspace.used

    def run(self) -> None:
        """Launch all kernels one by one, without a CUDA graph."""
        for launch in self.launches:
            launch()


def _inputs(
    words: PromptWords, store: StepRows, ids: Tensor, slots: Tensor, group: str, page: int, is_first: bool
) -> Launch:
    tokens, requests = len(words.tokens), len(words.rows)
    return Launch(
        "inputs", prompt_inputs, (-(-tokens // INPUT_BLOCK),),
        (words.tokens, words.positions, words.token_rows, words.rows, words.grown, store.column("last_token"),
         store.column("length"), store.table(group), ids, slots, tokens, requests, store.width),
        {"PAGE": page, "FIRST": is_first, "REQUESTS": ceil_power(requests), "BLOCK": INPUT_BLOCK},
    )  # fmt: skip
