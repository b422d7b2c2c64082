"""A decode step, from the rows of its requests to their next tokens, as launches that a CUDA graph can capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.ops.program.recording import Recording
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.kernel_launch import Call, Launch
from antiphon.ops.triton.kernels.rows.store import decode_inputs, grow_rows, row_slots
from antiphon.ops.triton.launch import Card, ceil_power
from antiphon.ops.triton.program.builder import DecodeInputs, GroupRows, StepBuilder
from antiphon.ops.triton.program.choice import ChoiceColumns, Draw, choice_launches
from antiphon.ops.triton.program.decode import lower
from antiphon.ops.triton.program.rows import StepRows
from antiphon.ops.triton.program.workspace import StepWorkspace


@dataclass(frozen=True)
class StepMemory:
    """Memory that the steps of one model share, for up to `max_rows` requests; one step runs at a time."""

    rows: Tensor  # int32 [max_rows]: row of each batch index, -1 for padding
    given: Tensor  # int32 [max_rows]: in chained steps, token of each index, -1 for the last token of its row
    offsets: Tensor  # int32 [max_rows]: in chained steps, offset of the token from its row's next position
    drawn: Tensor  # int32 [max_rows]: sampled tokens
    inputs: Tensor  # int32 [6, max_rows]
    counters: Tensor  # int32, zero between kernels
    workspace: Tensor | None  # uint8; None if steps only count bytes

    @classmethod
    def allocate(cls, max_rows: int, workspace_bytes: int, num_counters: int, device: torch.device) -> StepMemory:
        rows, given, offsets, drawn, *inputs = torch.zeros(10, max_rows, dtype=torch.int32, device=device)
        counters = torch.zeros(num_counters, dtype=torch.int32, device=device)
        workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device=device)
        return cls(rows.fill_(-1), given.fill_(-1), offsets, drawn, torch.stack(inputs), counters, workspace)


class LoweredDecodeStep:
    """Launches of a step of `count` tokens, in the order of `memory.rows`.

    A chained step may have several tokens of a request, each at its own batch index with its row, the given token and
    its offset. Rows of given tokens are not changed.
    """

    def __init__(
        self, recording: Recording, count: int, splits: int, store: StepRows, memory: StepMemory,
        compute_type: torch.dtype, vocab_size: int, card: Card, draw: Draw = Draw.PLAIN,
        pages: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Lower the recording; with `pages`, the tokens per block by cache group, the step is chained."""
        self.count, self.splits = count, splits
        token_ids, positions, seq_lens, cross_lens, table_rows, adapters = memory.inputs.unbind(0)
        groups = {
            name: GroupRows(store.table(name), store.width, cross_lens if name in store.cross else seq_lens)
            for name in recording.groups
        }
        inputs = DecodeInputs({"token_ids": token_ids, "positions": positions}, table_rows, groups)
        workspace = StepWorkspace(memory.workspace)
        is_chained = pages is not None
        own = [name for name in recording.groups if name not in store.cross] if is_chained else []
        slots = {name: workspace.take((count,), torch.int64) for name in own}
        step = StepBuilder(
            recording,
            count,
            splits,
            inputs,
            workspace,
            memory.counters,
            compute_type,
            card,
            slots if is_chained else None,
        )
        self.logits = lower(step)
        length = store.column("length")
        block = ceil_power(count)
        begin = Launch(
            "inputs", decode_inputs, (1,),
            (memory.rows, memory.given, memory.offsets, store.column("last_token"), length,
             store.column("cross_tokens"), store.column("adapter"), token_ids, positions, seq_lens, cross_lens,
             table_rows, adapters, count, store.width),
            {"BLOCK": block, "CHAINED": is_chained},
        )  # fmt: skip
        slot_launches = [
            Launch(
                "slots", row_slots, (1,),
                (table_rows, positions, seq_lens, store.table(name), slots[name], count, store.width),
                {"PAGE": pages[name], "BLOCK": block},
            )
            for name in own if pages is not None
        ]  # fmt: skip
        self.launches: list[Launch | Call] = [begin, *slot_launches, *step.launches]
        if draw is Draw.NOTHING:
            self.launches.append(_growth(memory, length, count, store.width, is_chained))
        else:
            self.launches += choice_launches(
                self.logits, count, vocab_size, _choice_columns(store), memory.rows, memory.drawn, workspace.take,
                filtered=draw is Draw.FILTERED, early=card.dependent_launch,
                chain=(memory.given, memory.offsets) if is_chained else None,
            )  # fmt: skip
        self.workspace_bytes = workspace.used

    def variants(self) -> list[Variant]:
        launches = [launch for launch in self.launches if isinstance(launch, Launch)]
        return [Variant.of(launch.kernel, launch.arguments, launch.keywords) for launch in launches]

    def run(self) -> None:
        """Launch all kernels one by one, without a CUDA graph."""
        for launch in self.launches:
            launch()


def _choice_columns(store: StepRows) -> ChoiceColumns:
    temperature, top_p, min_p = (store.column(name, torch.float32) for name in ("temperature", "top_p", "min_p"))
    seed, index = store.column("seed", torch.int64), store.column("output_index", torch.int64)
    last_token, length = store.column("last_token"), store.column("length")
    return ChoiceColumns(
        temperature, store.column("top_k"), top_p, min_p, seed, index, last_token, length,
        stride=store.width, long_stride=store.width // 2,
    )  # fmt: skip


def _growth(memory: StepMemory, length: Tensor, count: int, width: int, is_chained: bool) -> Launch:
    """Return the launch that makes every row one token longer, for steps whose caller samples."""
    constants = {"BLOCK": ceil_power(count), "CHAINED": is_chained}
    return Launch("grow", grow_rows, (1,), (memory.rows, memory.given, length, count, width), constants)


def step_bytes(
    recording: Recording, count: int, splits: int, store: StepRows, compute_type: torch.dtype, vocab_size: int,
    card: Card,
) -> int:  # fmt: skip
    """Return the bytes of workspace that a step needs, with any kind of sampling."""
    empty = torch.zeros(6, 0, dtype=torch.int32, device=store.words.device)
    memory = StepMemory(empty[0], empty[0], empty[0], empty[0], empty, empty[0], None)
    steps = (
        LoweredDecodeStep(recording, count, splits, store, memory, compute_type, vocab_size, card, draw)
        for draw in (Draw.PLAIN, Draw.FILTERED)
    )
    return max(step.workspace_bytes for step in steps)
