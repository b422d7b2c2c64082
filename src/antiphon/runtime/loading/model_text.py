"""`ModelText`: the text side of a model, which converts text to tokens and back without weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antiphon.errors import CheckpointError
from antiphon.runtime.loading.model_facts import ModelFacts
from antiphon.runtime.loading.sampling_defaults import SamplingDefaults, sampling_defaults
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.fill_in_middle import FillInMiddle, fill_in_middle
from antiphon.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from antiphon.weights.checkpoint import Checkpoint

#: Keys of the context length in a `config.json`.
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_target_positions", "n_text_ctx")


@dataclass(frozen=True)
class ModelText:
    """Text side of a model. `max_tokens` is the context that the checkpoint states; the engine may allow less."""

    name: str
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    eos_ids: frozenset[int]
    max_tokens: int
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    fill_in_middle: FillInMiddle | None = None
    facts: ModelFacts = field(default_factory=ModelFacts)

    @classmethod
    def load(cls, reference: str, offline: bool = False) -> ModelText:
        """Resolve a model, fetch it if needed, and load its text side. Blocks; every failure is an `AntiphonError`.

        Files are mapped to read their headers, then released; no weight is read.
        """
        from antiphon.runtime.loading.loading import end_ids, load_chat_template, load_tokenizer
        from antiphon.weights.catalog.resolve import resolve
        from antiphon.weights.formats.open import open_checkpoint

        resolved = resolve(reference, offline=offline)
        checkpoint = open_checkpoint(resolved.path)
        tokenizer = load_tokenizer(resolved, checkpoint)
        template = load_chat_template(resolved, checkpoint, tokenizer)
        sampling = sampling_defaults(resolved, checkpoint)
        ends, context = end_ids(resolved, tokenizer), context_length(checkpoint)
        metadata = checkpoint.metadata if checkpoint.format == "gguf" else {}
        middle = fill_in_middle(tokenizer, metadata)
        return cls(resolved.name, tokenizer, template, ends, context, sampling, middle, ModelFacts.of(checkpoint))


def context_length(checkpoint: Checkpoint) -> int:
    """Return the context length that the metadata state; 0 for a speech model or a detector, which has none."""
    from antiphon.models.base.parts import VocabularyKind
    from antiphon.models.registry import model_class

    if model_class(checkpoint.architecture).vocabulary in (VocabularyKind.PHONEMES, VocabularyKind.NONE):
        return 0
    keys = (f"{checkpoint.architecture}.context_length",) if checkpoint.format == "gguf" else CONTEXT_KEYS
    for key in keys:
        value = checkpoint.metadata.get(key)
        if isinstance(value, int) and value > 0:
            return value
    raise CheckpointError(f"the metadata of a {checkpoint.architecture} state no context length ({', '.join(keys)})")
