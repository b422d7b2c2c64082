"""A decode step from the rows of its requests to their next tokens, as launches and as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.ops.program.recording import Recording
from antiphon.ops.triton.kernels.choice import best_in_blocks, best_of_rows
from antiphon.ops.triton.kernels.row_store import decode_inputs
from antiphon.ops.triton.program.decode import Card, DecodeInputs, DecodeLowering, GroupRows, next_power
from antiphon.ops.triton.program.launch import Call, Launch
from antiphon.ops.triton.program.rows import DeviceRows
from antiphon.ops.triton.program.workspace import Workspace
from antiphon.weights.weight import Weight

#: Tokens of the vocabulary that one program of the choice compares.
CHOICE_BLOCK = 2048


@dataclass(frozen=True)
class StepMemory:
    """What the steps of one model share, for up to `max_rows` requests; one step runs at a time."""

    rows: Tensor  # int32 [max_rows]: the row of each place of the batch, -1 for padding
    drawn: Tensor  # int32 [max_rows]: the tokens
    inputs: Tensor  # int32 [6, max_rows]
    counters: Tensor  # int32, zero between kernels
    workspace: Tensor  # uint8

    @classmethod
    def allocate(cls, max_rows: int, workspace_bytes: int, num_counters: int, device: torch.device) -> StepMemory:
        whole = {"dtype": torch.int32, "device": device}
        return cls(
            torch.full((max_rows,), -1, **whole),  # type: ignore[call-overload]
            torch.zeros(max_rows, **whole),  # type: ignore[call-overload]
            torch.zeros(6, max_rows, **whole),  # type: ignore[call-overload]
            torch.zeros(num_counters, **whole),  # type: ignore[call-overload]
            torch.empty(workspace_bytes, dtype=torch.uint8, device=device),
        )


class DecodeStep:
    """The launches of a step of `count` requests, in the order of `memory.rows`."""

    def __init__(
        self, recording: Recording, count: int, splits: int, store: DeviceRows, memory: StepMemory,
        matrix_of: Callable[[Weight], Tensor], compute_type: torch.dtype, vocab_size: int, card: Card,
    ) -> None:  # fmt: skip
        self.count, self.splits = count, splits
        token_ids, positions, seq_lens, cross_lens, table_rows, adapters = memory.inputs.unbind(0)
        groups = {
            name: GroupRows(store.table(name), store.width, cross_lens if name in store.cross else seq_lens)
            for name in recording.groups
        }
        inputs = DecodeInputs({"token_ids": token_ids, "positions": positions}, table_rows, groups)
        workspace = Workspace(memory.workspace, memory.workspace.device)
        lowering = DecodeLowering(
            recording, count, splits, inputs, matrix_of, workspace, memory.counters, compute_type, card
        )
        self.logits = lowering.output
        blocks = -(-vocab_size // CHOICE_BLOCK)
        best, tokens = workspace.take((count, blocks), torch.float32), workspace.take((count, blocks), torch.int32)
        length, index = store.column("length"), store.column("output_index", torch.int64)
        strides = (store.width, store.width // 2)
        begin = Launch(
            "inputs", decode_inputs, (1,),
            (memory.rows, store.column("last_token"), length, store.column("cross_tokens"), store.column("adapter"),
             token_ids, positions, seq_lens, cross_lens, table_rows, adapters, count, store.width),
            {"BLOCK": next_power(count)},
        )  # fmt: skip
        pdl = card.dependent_launch
        compare = Launch(
            "best in blocks", best_in_blocks, (blocks, count),
            (self.logits, store.column("temperature", torch.float32), store.column("seed", torch.int64), index,
             memory.rows, best, tokens, self.logits.shape[1], *strides, vocab_size, blocks),
            {"BLOCK": CHOICE_BLOCK, "PDL": pdl}, dependent=pdl,
        )  # fmt: skip
        choose = Launch(
            "best of rows", best_of_rows, (count,),
            (best, tokens, memory.rows, store.column("last_token"), length, index, memory.drawn, *strides, blocks),
            {"BLOCKS": next_power(blocks), "PDL": pdl}, dependent=pdl,
        )  # fmt: skip
        self.launches: list[Launch | Call] = [begin, *lowering.launches, compare, choose]
        self.workspace_bytes = workspace.used

    def run(self) -> None:
        """Launch every kernel by itself."""
        for launch in self.launches:
            launch()

    def capture(self, pool: object = None) -> torch.cuda.CUDAGraph:
        """The step as a graph. The kernels must have run once, so that they are compiled."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):  # type: ignore[arg-type]
            self.run()
        return graph
