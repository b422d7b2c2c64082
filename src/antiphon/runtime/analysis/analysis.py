"""Cost of a model on a machine, computed from its recorded programs: nothing is loaded and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from antiphon.errors import ContextLengthError, MemoryBudgetError, UnrecordableError, UnsupportedError
from antiphon.executor.recorded import recordings
from antiphon.models.base.model import Model, Task
from antiphon.models.base.parts import TokenDecoder
from antiphon.models.registry import build_model
from antiphon.ops import KVCache, allocate_arena
from antiphon.ops.program import Recording
from antiphon.ops.program.describe import totals
from antiphon.ops.program.floor import UniformStep
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.analysis.floors import Phase, ProgramRun
from antiphon.runtime.analysis.kv_memory import PageMemory, page_memory
from antiphon.runtime.analysis.machine import Machine, open_machine
from antiphon.runtime.analysis.planned_weights import plan_weights
from antiphon.runtime.analysis.sections import Sections
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_memory import kv_bytes_for, workspace_bytes
from antiphon.runtime.loading.machine_limits import GivenLimits
from antiphon.runtime.slots.decoder import cache_layouts, check_page_types
from antiphon.weights.catalog.model_tasks import KINDS
from antiphon.weights.catalog.resolve import ResolvedModel
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.formats.open import open_checkpoint

#: Default tokens of a prompt, and of the context of a decoded token; half of the model's maximum if that is less.
DEFAULT_TOKENS = 512
#: Prompt tokens of a decoder with an encoder: start of transcript, language, task and no timestamps.
CROSS_PROMPT = 4
PREFILL, DECODE, ENCODE, EMBED = "prefill", "decode", "encode", "embed"


@dataclass(frozen=True)
class Sizes:
    """Number of requests at once, tokens of their prompts, and tokens before the decoded one."""

    batch: int = 1
    prompt: int | None = None
    context: int | None = None

    def checked(self, name: str, model: Model) -> tuple[int, int]:
        """Return the prompt and the context with defaults; reject sizes that the model does not accept."""
        most, decoder = model.max_positions, model.part(TokenDecoder)
        short = CROSS_PROMPT if decoder is not None and decoder.cross is not None else DEFAULT_TOKENS
        prompt = min(short, max(1, most // 2)) if self.prompt is None else self.prompt
        context = min(DEFAULT_TOKENS, max(1, most // 2)) if self.context is None else self.context
        if prompt > most:
            raise ContextLengthError(f"a prompt of {prompt:,} tokens was given; {name} takes {most:,}")
        if decoder is not None and context >= most:
            raise ContextLengthError(f"a token after {context:,} others was asked for; {name} takes {most:,} tokens")
        return prompt, context


@dataclass(frozen=True)
class Analysis:
    """Result of an analysis. `unknown` has sentences about figures that could not be determined."""

    name: str
    task: Task
    machine: Machine
    limits: MachineLimits
    is_measured: bool  # whether the limits were measured rather than given
    batch: int
    prompt: int
    context: int
    parameters: int
    file_bytes: int
    weight_bytes: int
    phases: dict[str, Phase]
    kv_bytes: int | None = None
    page_type: str = ""
    pages: list[PageMemory] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def analyze(resolved: ResolvedModel, sizes: Sizes, config: EngineConfig, given: GivenLimits) -> Analysis:
    """Analyze a model from its headers and recorded programs.

    Limits that are not given are measured, which requires the device to be in this machine.
    """
    return analyze_checkpoint(resolved.name, open_checkpoint(resolved.path), sizes, config, given)


def analyze_checkpoint(
    name: str, checkpoint: Checkpoint, sizes: Sizes, config: EngineConfig, given: GivenLimits
) -> Analysis:
    """Analyze an open checkpoint as `analyze` does."""
    tensors = checkpoint.tensors().values()
    model = build_model(checkpoint)
    machine = open_machine(config, given, name, model)
    plan_weights(model, machine, config.weight_options())
    unknown: list[str] = []
    recorded = _recorded(model, machine, config, unknown)
    if not recorded:
        kind = KINDS.get(model.task, f"for {model.task}")
        reason = f" whose programs cannot be recorded: {unknown[0]}" if unknown else ", which has no recorded programs"
        raise UnsupportedError(f"{name} is {kind}{reason}; its bytes and operations are not known")
    prompt, context = sizes.checked(name, model)
    phases = _phases(model, recorded, sizes.batch, prompt, context)
    read = [totals(run.recording).weight_bytes for run in next(reversed(phases.values())).runs]
    limits = machine.limits(given, sum(read))
    decoder, weight_bytes = model.part(TokenDecoder), model.weight_bytes()
    kv_bytes = None if decoder is None else _kv_bytes(model, machine, config, weight_bytes, unknown)
    return Analysis(
        name=name,
        task=model.task,
        machine=machine,
        limits=limits,
        is_measured=given.known() is None,
        batch=sizes.batch,
        prompt=prompt,
        context=context,
        parameters=sum(prod(tensor.shape) for tensor in tensors),
        file_bytes=sum(tensor.nbytes for tensor in tensors),
        weight_bytes=weight_bytes,
        phases=phases,
        kv_bytes=kv_bytes,
        page_type=machine.sizes.key_type,
        pages=[] if decoder is None else list(page_memory(decoder, machine, config, kv_bytes, context)),
        unknown=unknown,
    )


def _recorded(model: Model, machine: Machine, config: EngineConfig, unknown: list[str]) -> dict[str, Recording]:
    """Return the model's programs by name, over pages of the configured type."""
    decoder = model.part(TokenDecoder)
    layouts = []
    if decoder is not None:
        if machine.is_cpu:
            check_page_types(machine.sizes, machine.name)
        layouts = cache_layouts(decoder.cache_groups, config, machine.sizes)
    made: dict[str, Recording] = {}
    for name, make in recordings(model, KVCache(allocate_arena(0), layouts)).items():
        try:
            made[name] = make()
        except UnrecordableError as error:
            unknown.append(f"the cost of {name}, which cannot be recorded: {error}")
    return made


def _phases(model: Model, recorded: Mapping[str, Recording], batch: int, prompt: int, context: int) -> dict[str, Phase]:
    """Return the phases whose programs are recorded, in the order in which a request passes them."""
    decoder, sections = model.part(TokenDecoder), Sections(model)
    states = 0 if decoder is None or decoder.cross is None else decoder.cross.num_states
    sizes = {
        ENCODE: {"encode": UniformStep(batch, 0, 0, states), "store_encoded": UniformStep(batch, 0, states)},
        EMBED: {"embed": UniformStep(batch, 0, prompt)},
        PREFILL: {"forward": UniformStep(batch, 0, prompt, states)},
        DECODE: {"forward": UniformStep(batch, context, 1, states)},
    }
    phases: dict[str, Phase] = {}
    for name, programs in sizes.items():
        runs = tuple(ProgramRun(recorded[program], size) for program, size in programs.items() if program in recorded)
        num_logits = decoder.vocab_size if decoder is not None and name in (PREFILL, DECODE) else 0
        if runs:
            phases[name] = Phase(name, runs, sections, num_logits)
    return phases


def _kv_bytes(
    model: Model, machine: Machine, config: EngineConfig, weight_bytes: int, unknown: list[str]
) -> int | None:
    """Return the bytes that an engine would reserve for keys and values; None if unknown."""
    if machine.is_cpu:
        return config.kv_bytes or config.cpu_kv_bytes
    if machine.device is None:
        if config.kv_bytes is None:
            unknown.append(f"how many requests fit: {machine.name} is not on this machine; give --kv-memory")
        return config.kv_bytes
    try:
        return kv_bytes_for(machine.device, config, workspace_bytes(model, machine.sizes), weight_bytes)
    except MemoryBudgetError as error:
        unknown.append(f"how many requests fit: {error}")
        return None
