"""Options for a command's model and its computation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.terminal.files import check_writable
from antiphon.errors import MemoryBudgetError, UsageError

DEFAULT_KV_MEGABYTES = 1024
PageType = Literal["fp32", "fp16", "bf16", "int8", "fp8"]
MODEL_HELP = "Catalog name, file, folder, or hub:owner/repository[:file]."
SPECULATE_HELP = (
    "Compute tokens ahead: off; ngram, where the answer repeats the prompt or itself; or also what a smaller model of "
    "the same vocabulary drafts. The answer is the same. Default: off"
)
SPECULATE_VALUES = "off|ngram|MODEL"


def complete_model(incomplete: str) -> list[str]:
    """Return the catalog's model names with this prefix, for shell completion."""
    from antiphon.weights.catalog.catalog import catalog

    return [name for name in catalog() if name.startswith(incomplete.lower())]


def model_option(flag: str, help_: str = MODEL_HELP) -> Any:
    """Return an option that takes a model's name."""
    return typer.Option(flag, metavar="MODEL", help=help_, autocompletion=complete_model)


def model_argument(default: str) -> Any:
    """Return an argument for a model that may be omitted."""
    return typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} Default: {default}.", autocompletion=complete_model)


def _check_kv_memory(context: typer.Context, megabytes: int | None) -> int | None:
    """Reject more memory than the machine has, before a model is loaded; a GPU's memory is not known yet."""
    is_gpu = str(context.params.get("device")).startswith("cuda")
    if not is_gpu and (megabytes or 0) > DEFAULT_KV_MEGABYTES:  # the default needs no check
        from antiphon.runtime.loading.memory_budget import check_memory

        try:
            check_memory((megabytes or 0) << 20)
        except MemoryBudgetError as error:
            raise UsageError(f"--kv-memory {megabytes}: {error}") from error
    return megabytes


def check_device(name: str) -> str:
    """Raise UsageError unless this can be a device's name."""
    from antiphon.device_names import check_device_name

    with usage_errors("--device"):
        return check_device_name(name)


def check_speculate(value: str | None) -> str | None:
    """Raise UsageError unless the value is a drafting mode or an existing model."""
    from antiphon.runtime.loading.draft_reference import check_speculation

    if value is not None:
        with usage_errors("--speculate"):
            check_speculation(value)
    return value


def needs_draft_model(speculate: str | None) -> bool:
    """Return whether the value of `--speculate` names a draft model to be loaded beside the model."""
    from antiphon.engine.speculation.modes import Speculation

    return speculate is not None and Speculation.of_engine(speculate) is Speculation.DRAFT


def _check_trace(path: Path | None) -> Path | None:
    if path is not None:
        check_writable(path)
    return path


Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show the form of the weights, their memory and the seconds of loading.")
]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_model)]
Offline = Annotated[bool, typer.Option("--offline", help="Never download; fail if the model is not on this machine.")]
Device = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="Where the model computes: cpu, cuda, cuda:N; auto is the first GPU that can be used, else the CPU.",
        callback=check_device,
        is_eager=True,
    ),
]
KVMemory = Annotated[
    int | None,
    typer.Option(
        metavar="MB",
        help="Memory for the KV cache. Default: 1024; on a GPU what is free.",
        min=1,
        callback=_check_kv_memory,
    ),
]
KVType = Annotated[
    PageType | None,
    typer.Option(help="Data type of the KV cache. Default: fp16; on a GPU the compute type."),
]
NoRepack = Annotated[
    bool, typer.Option("--no-repack", help="Keep quantised weights in the file's layout (less memory, slower).")
]
Quantize = Annotated[
    Literal["int8", "q4", "fp8"] | None,
    typer.Option(help="Quantise float weights to this type; fp8 needs a GPU."),
]
Speculate = Annotated[
    str | None, typer.Option(metavar=SPECULATE_VALUES, help=f"{SPECULATE_HELP}.", callback=check_speculate)
]
RemoteSpeculate = Annotated[
    str | None,
    typer.Option(
        metavar=SPECULATE_VALUES,
        help=f"{SPECULATE_HELP}; the server's setting with --base-url, where draft is the server's draft model.",
    ),
]
Adapter = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="LoRA adapter for the model: a folder as PEFT saves it, or a GGUF file."),
]
NoRecord = Annotated[
    bool,
    typer.Option(
        "--no-record", help="Run operations one by one instead of as one compiled program (slower, same output)."
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a timeline that Perfetto or chrome://tracing can show.",
        callback=_check_trace,
    ),
]


class EngineOptions(OptionGroup):
    """Options for a model's device, KV cache and weights."""

    device: Device = "auto"
    kv_memory: KVMemory = None
    kv_type: KVType = None
    no_repack: NoRepack = False
    quantize: Quantize = None


class StepOptions(OptionGroup):
    """Options for running and recording an engine's steps."""

    trace: Trace = None
    profile: Annotated[bool, typer.Option("--profile", help="Print a profile of the steps afterwards.")] = False
    no_record: NoRecord = False
