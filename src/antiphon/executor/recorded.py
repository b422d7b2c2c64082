"""A model's forward as a native program, recorded on first use; operation by operation where it cannot be recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from antiphon import ops
from antiphon.models.bert import Bert
from antiphon.models.model import CausalLM, Model
from antiphon.models.whisper import CROSS_GROUP, Whisper
from antiphon.ops import Batch, KVCache
from antiphon.ops.native.program import Program
from antiphon.ops.program import InputSpec, Recording, record

logger = logging.getLogger(__name__)

TOKENS = InputSpec("token_ids", torch.int32, ("T",))
POSITIONS = InputSpec("positions", torch.int32, ("T",))
QUERY_START = InputSpec("query_start", torch.int32, (("R", 1),))
LOGIT_ROWS = InputSpec("logit_rows", torch.int64, ("L",))
SEQ_START = InputSpec("seq_start", torch.int32, (("R", 1),))


def record_forward(model: CausalLM, cache: KVCache) -> Recording:
    """A step of a token-by-token model: T tokens of R requests in, logits of L rows out."""
    inputs = (TOKENS, POSITIONS, QUERY_START, LOGIT_ROWS)
    return record(lambda x, groups: model.forward(Batch(groups=groups, **x), cache), inputs, list(cache.layouts))


def record_embed(model: Bert) -> Recording:
    """Vectors of R texts of T tokens together."""
    return record(lambda inputs, _: model.embed(**inputs), (TOKENS, POSITIONS, SEQ_START))


def record_encode(model: Whisper) -> Recording:
    """Encoder states of B windows of 2 S frames."""
    features = InputSpec("features", torch.float32, ("B", ("S", 0, 2), model.config.num_mels))
    seq_start = InputSpec("seq_start", torch.int32, (("B", 1),))
    return record(lambda inputs, _: model.encode(**inputs), (features, seq_start))


def record_store_encoded(model: Whisper, cache: KVCache) -> Recording:
    """Keys and values of T encoder states to the cross slots."""
    encoded = InputSpec("encoded", torch.float32, ("T", model.config.hidden_size))

    def store(inputs: dict[str, Tensor], groups: dict[str, ops.GroupBatch]) -> None:
        positions = query_start = logit_rows = inputs["encoded"]  # which the model has no use for here
        model.store_encoded(inputs["encoded"], Batch(positions, query_start, logit_rows, groups=groups), cache)

    return record(store, (encoded,), [CROSS_GROUP])  # type: ignore[arg-type]


def stages(model: Model, cache: KVCache) -> dict[str, Callable[[], Recording]]:
    """What a model runs as programs, by name."""
    found: dict[str, Callable[[], Recording]] = {}
    if isinstance(model, Whisper):
        whisper = model
        found["encode"] = lambda: record_encode(whisper)
        found["store_encoded"] = lambda: record_store_encoded(whisper, cache)
    if isinstance(model, CausalLM):
        causal = model
        found["forward"] = lambda: record_forward(causal, cache)
    if isinstance(model, Bert):
        bert = model
        found["embed"] = lambda: record_embed(bert)
    return found


class Recorded:
    """A program that is made when it is first needed, or None where the forward cannot be recorded."""

    def __init__(self, name: str, make: Callable[[], Recording], wanted: bool = True) -> None:
        self._name = name
        self._make = make
        self._wanted = wanted
        self._program: Program | None = None

    def program(self) -> Program | None:
        """The program, if the operations of this thread go to the native backend."""
        if not self._wanted or ops.active_backend().name != "native":
            return None
        if self._program is None:
            try:
                self._program = Program(self._make())
            except Exception as error:
                self._wanted = False
                logger.warning("%s runs operation by operation: %s: %s", self._name, type(error).__name__, error)
        return self._program


class Forward:
    """The steps of a token-by-token model over one cache.

    The logits of a recorded step lie in a buffer that the next step writes to again: whoever needs them longer copies
    them. Steps run one after the other, so nobody else can be reading it.
    """

    def __init__(self, model: CausalLM, cache: KVCache, wanted: bool) -> None:
        self._model = model
        self._cache = cache
        self.logit_width = model.vocab_size
        self.recorded = Recorded(type(model).__name__, lambda: record_forward(model, cache), wanted)
        self._logits = torch.empty(0)
        #: Seconds that the last step spent in its program; 0 where there is none.
        self.native_seconds = 0.0

    def logits(self, count: int) -> Tensor:
        """Room for so many rows of logits, which the next step uses again."""
        if self._logits.numel() < count * self.logit_width:
            self._logits = torch.empty(count * self.logit_width)
        return self._logits

    def __call__(self, batch: Batch) -> Tensor:
        program = self.recorded.program() if batch.embeds is None else None
        if program is None:
            self.native_seconds = 0.0
            return self._model.forward(batch, self._cache)
        inputs = {
            "token_ids": batch.token_ids, "positions": batch.positions, "query_start": batch.query_start,
            "logit_rows": batch.logit_rows,
        }  # fmt: skip
        logits = program.run(inputs, batch.groups, self.logits(len(batch.logit_rows)))  # type: ignore[arg-type]
        self.native_seconds = program.native_seconds
        return logits


class Embed:
    """Whole texts to vectors, which are the caller's to keep."""

    def __init__(self, model: Bert, wanted: bool) -> None:
        self._model = model
        self.recorded = Recorded(type(model).__name__, lambda: record_embed(model), wanted)
        self.native_seconds = 0.0

    def __call__(self, token_ids: Tensor, positions: Tensor, seq_start: Tensor) -> Tensor:
        program = self.recorded.program()
        if program is None:
            self.native_seconds = 0.0
            return self._model.embed(token_ids, positions, seq_start)
        vectors = program.run({"token_ids": token_ids, "positions": positions, "seq_start": seq_start})
        self.native_seconds = program.native_seconds
        return vectors
