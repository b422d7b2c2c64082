"""Loading of a model: files, tokenizer, module tree, and weights in the backend's form."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

import torch

from antiphon.device_names import AUTO, CPU
from antiphon.errors import CheckpointError, OutOfDeviceMemoryError, UnsupportedError
from antiphon.models.base.model import CausalLM, Model, Task
from antiphon.models.base.parts import SynthesisStages, VocabularyKind
from antiphon.models.registry import build_model, model_class
from antiphon.ops import Device
from antiphon.regular_file import read_regular_text
from antiphon.runtime.loading.device_memory import reserve_bytes
from antiphon.runtime.loading.memory_budget import weight_file_bytes
from antiphon.runtime.loading.process_memory import trim_memory
from antiphon.runtime.loading.sampling_defaults import SamplingDefaults, sampling_defaults
from antiphon.runtime.loading.weight_forms import LoadReport, WeightOptions, prepare
from antiphon.runtime.voices.book import VoiceBook
from antiphon.text.chat_template import ChatTemplate, find_chat_template
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.hf_vocab import tokenizer_from_file
from antiphon.text.tokenization.llama2c_vocab import tokenizer_from_llama2c
from antiphon.text.tokenization.symbol_vocab import SymbolTokenizer
from antiphon.text.tokenization.tokenizer import Tokenizer
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer, tokens_from_json, tokens_from_tiktoken
from antiphon.weights.catalog.model_tasks import KINDS, check_catalog_task, wrong_task
from antiphon.weights.catalog.resolve import ResolvedModel, resolve
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.formats.open import open_checkpoint
from antiphon.weights.json_object import read_json_object

#: Tokens of Whisper's English-only vocabulary; multilingual vocabularies are larger.
ENGLISH_VOCABULARY = 51864
#: Minimum bytes of a step beside the weights.
MIN_STEP_BYTES = 1 << 29
#: Tasks of small models that run on the CPU only, and that calls of other models use.
DETECTOR_TASKS = (Task.PHONEMIZE, Task.VOICE_ACTIVITY, Task.END_OF_TURN)

logger = logging.getLogger("antiphon.models")


@dataclass(frozen=True)
class LoadedModel:
    """Resident model with its tokenizer and chat template."""

    name: str
    model: Model
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    eos_ids: frozenset[int]
    report: LoadReport
    voices: VoiceBook | None = None  # set for speech models only
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    #: Device on which the model computes.
    device: Device = field(default_factory=lambda: Device.parse(CPU))

    def bytes_per_step(self) -> int:
        """Return the weight bytes that decoding a token reads: all but embedding tables that are not also heads."""
        rules = self.model.weight_rules()
        looked_up = {id(weight) for weight in rules.embeddings} - {id(weight) for weight in rules.heads}
        return sum(weight.resident_bytes for weight in self.model.weights() if id(weight) not in looked_up)

    def causal_lm(self) -> CausalLM:
        """Return the model, which must be for text generation."""
        if self.model.task is not Task.GENERATE:
            raise wrong_task(self.name, self.model.task, Task.GENERATE)
        return cast(CausalLM, self.model)


def load_model(
    reference: str,
    *,
    offline: bool = False,
    progress: Callable[..., None] | None = None,
    options: WeightOptions | None = None,
    task: str | None = None,
    device: Device | str = AUTO,
    may_move: bool = False,
    batch_invariant: bool = False,
) -> LoadedModel:
    """Resolve a model, download it if needed, and load it.

    Every failure is an `AntiphonError` that names the file and the cause. Tensors are on `device`, which is opened
    first if it is a name. Detectors run on the CPU only, and with `batch_invariant` all models that do not generate
    text: on another device they raise `UnsupportedError`, but move to the CPU with `may_move` or with the device
    `auto`. With `auto`, a model for which a GPU has no room moves to the CPU too.

    A model that is not for `task` is rejected as early as its task is known: before the download if the catalog has it,
    otherwise once its architecture is read.
    """
    if task is not None:
        check_catalog_task(reference, task)
    opened = Device.parse(device) if isinstance(device, str) else device
    report = LoadReport()
    with report.phase("fetch"):
        resolved = resolve(reference, offline=offline, progress=progress)
    if device == AUTO:
        opened = with_room(opened, resolved)
    return load_resolved(resolved, report, options, task, opened, may_move or device == AUTO, batch_invariant)


def load_resolved(
    resolved: ResolvedModel,
    report: LoadReport | None = None,
    options: WeightOptions | None = None,
    task: str | None = None,
    device: Device | None = None,
    may_move: bool = False,
    batch_invariant: bool = False,
) -> LoadedModel:
    """Load the files of a resolved model, by default on the CPU; see `load_model`."""
    report, options, device = report or LoadReport(), options or WeightOptions(), device or Device.parse(CPU)
    with report.phase("open"):
        checkpoint = open_checkpoint(resolved.path)
        kind = model_class(checkpoint.architecture)
        if task is not None and kind.task != task:
            raise wrong_task(resolved.name, kind.task, task)
    device = device_for(resolved.name, kind.task, device, may_move, batch_invariant)
    device = device.preferring(kind.preferred_type)
    with report.phase("tokenizer"):
        tokenizer = load_tokenizer(resolved, checkpoint)
    with report.phase("weights"):
        model = build_model(checkpoint)
        _reject_unused(checkpoint, model, resolved.name)
        free = device.free_bytes()
        try:
            prepare(model, report, options, checkpoint.release_pages, device)
        except torch.OutOfMemoryError as error:
            size = sum(tensor.nbytes for tensor in checkpoint.tensors().values())
            raise OutOfDeviceMemoryError(
                f"{device.name} ({device.limits.hardware}) has {free >> 20:,} MiB free of "
                f"{device.limits.total_bytes >> 20:,} MiB; {resolved.name} has {size >> 20:,} MiB of weights in its "
                "files and needs more: use a smaller model, unload others, or use another device"
            ) from error
    _check_vocabulary(resolved.name, model, tokenizer)
    eos_ids = end_ids(resolved, tokenizer)
    template = load_chat_template(resolved, checkpoint, tokenizer)
    synthesis = model.part(SynthesisStages)
    voices = None if synthesis is None else VoiceBook.beside(resolved.files, synthesis.style_size, resolved.name)
    sampling = sampling_defaults(resolved, checkpoint)
    del checkpoint  # its metadata would keep memory from being returned
    trim_memory()
    return LoadedModel(resolved.name, model, tokenizer, template, eos_ids, report, voices, sampling, device)


def device_for(name: str, task: Task, device: Device, may_move: bool, batch_invariant: bool = False) -> Device:
    """Return the device, or the CPU for a model that the device does not serve and that may move."""
    if device.is_cpu:
        return device
    if task in DETECTOR_TASKS:
        reason = "which runs on the CPU beside other models"
    elif batch_invariant and task is not Task.GENERATE:
        reason = "and batch-invariant mode on a GPU is for text generation only"
    else:
        return device
    kind = KINDS.get(task, f"for {task}")
    if not may_move:
        raise UnsupportedError(f"{name} is {kind}, {reason}: use the device cpu for it, not {device.name}")
    logger.info("%s computes on the CPU, not on %s: it is %s, %s", name, device.name, kind, reason)
    return Device.parse(CPU)


def with_room(device: Device, resolved: ResolvedModel) -> Device:
    """Return the device if the model fits its free memory, otherwise the CPU."""
    if device.is_cpu:
        return device
    free, size = device.free_bytes(), weight_file_bytes(resolved)
    if size + reserve_bytes(device) + MIN_STEP_BYTES <= free:
        return device
    logger.warning(
        f"{resolved.name} computes on the CPU: it has {size >> 20:,} MiB of weights, and {device.name} "
        f"({device.limits.hardware}) has {free >> 20:,} MiB free of {device.limits.total_bytes >> 20:,} MiB"
    )
    return Device.parse(CPU)


def load_tokenizer(resolved: ResolvedModel, checkpoint: Checkpoint) -> Tokenizer:
    """Load the vocabulary from a GGUF file or from the files beside the weights; a detector's is empty."""
    if model_class(checkpoint.architecture).vocabulary is VocabularyKind.NONE:
        return SymbolTokenizer({})
    if checkpoint.format == "gguf":
        return tokenizer_from_gguf(checkpoint.metadata)
    if checkpoint.format == "llama2c":
        return tokenizer_from_llama2c(_file(resolved, "tokenizer.bin"), int(checkpoint.metadata["vocab_size"]))
    if checkpoint.format == "onnx":
        return SymbolTokenizer(checkpoint.metadata.get("vocab") or {})
    if model_class(checkpoint.architecture).vocabulary is VocabularyKind.WHISPER:
        return load_whisper_tokenizer(resolved, checkpoint)
    config = resolved.files.get("tokenizer_config.json")
    return tokenizer_from_file(_file(resolved, "tokenizer.json"), config)


def load_whisper_tokenizer(resolved: ResolvedModel, checkpoint: Checkpoint) -> WhisperTokenizer:
    """Load Whisper's text tokens from a ggml file, a `tokenizer.json`, or OpenAI's own file beside the weights."""
    metadata = checkpoint.metadata
    vocab_size = int(metadata["n_vocab"] if "n_vocab" in metadata else metadata["vocab_size"])
    if "tokens" in metadata:
        return WhisperTokenizer(metadata["tokens"], vocab_size)
    if "tokenizer.json" in resolved.files:
        return WhisperTokenizer(tokens_from_json(resolved.files["tokenizer.json"]), vocab_size)
    name = f"{'multilingual' if vocab_size > ENGLISH_VOCABULARY else 'gpt2'}.tiktoken"
    if name in resolved.files:
        return WhisperTokenizer(tokens_from_tiktoken(resolved.files[name]), vocab_size)
    raise CheckpointError(f"model {resolved.name!r} has neither tokenizer.json nor {name} beside {resolved.path}")


def load_chat_template(resolved: ResolvedModel, checkpoint: Checkpoint, tokenizer: Tokenizer) -> ChatTemplate | None:
    """Return the model's own template, or None for a base model, which is prompted with plain text."""
    metadata: dict[str, Any] = dict(checkpoint.metadata) if checkpoint.format == "gguf" else {}
    if "tokenizer_config.json" in resolved.files:
        metadata = read_json_object(resolved.files["tokenizer_config.json"])
    if "chat_template.jinja" in resolved.files:
        metadata["chat_template"] = _read_text(resolved.files["chat_template.jinja"])
    source = find_chat_template(metadata)
    return None if source is None else ChatTemplate.for_tokenizer(source, tokenizer)


def _file(resolved: ResolvedModel, name: str) -> Path:
    path = resolved.files.get(name)
    if path is None:
        raise CheckpointError(f"model {resolved.name!r} has no {name} beside {resolved.path}")
    return path


def _read_text(path: Path) -> str:
    try:
        return read_regular_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error


def end_ids(resolved: ResolvedModel, tokenizer: Tokenizer) -> frozenset[int]:
    """Return the tokens that end an answer: the vocabulary's own, and those that `generation_config.json` names."""
    return tokenizer.eos_ids | _generation_eos(resolved)


def _generation_eos(resolved: ResolvedModel) -> frozenset[int]:
    path = resolved.files.get("generation_config.json")
    if path is None:
        return frozenset()
    named = read_json_object(path).get("eos_token_id")
    ids = named if isinstance(named, list) else [] if named is None else [named]
    if not all(type(token_id) is int for token_id in ids):
        raise CheckpointError(f"{path}: eos_token_id is {named!r}, neither an id nor a list of ids")
    return frozenset(ids)


def _reject_unused(checkpoint: Checkpoint, model: Model, name: str) -> None:
    """Reject a checkpoint with tensors that no module uses: it is a variant that would give wrong results."""
    unused = [tensor for tensor in checkpoint.unused() if not any(fnmatch(tensor, p) for p in model.ignores)]
    if unused:
        raise UnsupportedError(
            f"model {name!r} ({checkpoint.architecture}) has {len(unused)} tensors that this build does not know: "
            + ", ".join(unused[:4])
        )


def _check_vocabulary(name: str, model: Model, tokenizer: Tokenizer) -> None:
    if model.vocabulary is not VocabularyKind.NONE and tokenizer.vocab_size > model.vocab_size:
        raise CheckpointError(
            f"model {name!r}: the tokenizer has {tokenizer.vocab_size} tokens, the embedding {model.vocab_size} rows"
        )
