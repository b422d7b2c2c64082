"""Options that several commands share."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.terminal.files import check_writable
from antiphon.errors import InvalidRequestError, UsageError

if TYPE_CHECKING:
    from antiphon.text.grammar_spec import GrammarSpec


class Quantization(StrEnum):
    INT8 = "int8"
    Q4 = "q4"
    FP8 = "fp8"


class Precision(StrEnum):
    FAST = "fast"
    FP32 = "fp32"


class PageType(StrEnum):
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"
    FP8 = "fp8"


DEFAULT_KV_MEGABYTES = 1024


def complete_model(incomplete: str) -> list[str]:
    """The catalog's names, for the shell's completion."""
    from antiphon.weights.catalog.catalog import catalog

    return [name for name in catalog() if name.startswith(incomplete.lower())]


def _check_kv_memory(context: typer.Context, megabytes: int | None) -> int | None:
    """More than the machine has is a usage error, found before a model is loaded; what a GPU has is not known yet."""
    is_gpu = str(context.params.get("device")).startswith("cuda")
    if not is_gpu and (megabytes or 0) > DEFAULT_KV_MEGABYTES:  # the default needs no look at the machine
        from antiphon.errors import MemoryBudgetError
        from antiphon.runtime.loading.memory_budget import check_memory

        try:
            check_memory((megabytes or 0) << 20)
        except MemoryBudgetError as error:
            raise UsageError(f"--kv-memory {megabytes}: {error}") from error
    return megabytes


def check_device(name: str) -> str:
    """A name that no device has is a usage error."""
    from antiphon.device_names import check_device_name

    try:
        return check_device_name(name)
    except InvalidRequestError as error:
        raise UsageError(f"--device: {error}") from error


def check_speculate(value: str | None) -> str | None:
    """Neither a way to draft nor a model that exists is a usage error."""
    from antiphon.runtime.loading.draft_reference import check_speculation

    if value is not None:
        try:
            check_speculation(value)
        except InvalidRequestError as error:
            raise UsageError(f"--speculate: {error}") from error
    return value


def _check_trace(path: Path | None) -> Path | None:
    if path is not None:
        check_writable(path)
    return path


MODEL_HELP = "Catalog name, file, folder, or hub:owner/repository[:file]."
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_model)]
# How to sample: None is the model's own setting (generation_config.json, GGUF metadata), else the default named here.
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        help="Randomness; 0 always takes the most likely token. Default: the model's own setting, else 0.7.",
        show_default=False,
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        help="Sample from the most likely tokens of this total probability. Default: the model's own, else 0.95.",
        show_default=False,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        help="Sample from this many most likely tokens; 0 means all. Default: the model's own, else 0.",
        show_default=False,
    ),
]
MinP = Annotated[
    float | None,
    typer.Option(
        "--min-p",
        help="Drop tokens less likely than this share of the most likely one. Default: the model's own, else 0.",
        show_default=False,
    ),
]
Repetition = Annotated[
    float | None,
    typer.Option(
        "--repetition-penalty",
        help="Above 1 discourages tokens that already appeared. Default: the model's own, else 1.",
        show_default=False,
    ),
]
Presence = Annotated[
    float | None,
    typer.Option(
        "--presence-penalty", help="Penalty for tokens that already appeared in the answer.", show_default=False
    ),
]
Frequency = Annotated[
    float | None,
    typer.Option(
        "--frequency-penalty", help="Penalty for each time a token appeared in the answer.", show_default=False
    ),
]
SampleSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        help="Random seed; the same seed gives the same text. Default: a new one for each answer.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Random seed; the same seed gives the same result.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Maximum length of the answer, in tokens.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", help="Stop before this text; can be repeated.")]
System = Annotated[str | None, typer.Option("--system", help="System message.", show_default=False)]
Offline = Annotated[bool, typer.Option("--offline", help="Never download; fail if the model is not on this machine.")]
Raw = Annotated[bool, typer.Option("--raw", help="Send the prompt unchanged, without a chat template.")]
JsonSchema = Annotated[
    str | None,
    typer.Option(
        "--json-schema",
        metavar="SCHEMA",
        help="Answer in JSON that matches this schema (a file, or the schema itself).",
        show_default=False,
    ),
]
Regex = Annotated[
    str | None,
    typer.Option("--regex", metavar="REGEX", help="Answer with text that matches this expression.", show_default=False),
]
Choice = Annotated[
    list[str] | None,
    typer.Option("--choice", help="Answer with one of these texts; repeat the option for each.", show_default=False),
]
KVMemory = Annotated[
    int | None,
    typer.Option(
        "--kv-memory",
        metavar="MB",
        help="Memory for the KV cache. Default: 1024; on a GPU what is free.",
        min=1,
        callback=_check_kv_memory,
        show_default=False,
    ),
]
KVType = Annotated[
    PageType | None,
    typer.Option(
        "--kv-type", help="Data type of the KV cache. Default: fp16; on a GPU the compute type.", show_default=False
    ),
]
DEVICE_HELP = "Where the model computes: cpu, cuda, cuda:N; auto is the first GPU that can be used, else the CPU."
Device = Annotated[
    str,
    typer.Option("--device", metavar="DEVICE", help=DEVICE_HELP, callback=check_device, is_eager=True),
]
NoRepack = Annotated[
    bool, typer.Option("--no-repack", help="Keep quantised weights in the file's layout (less memory, slower).")
]
Quantize = Annotated[
    Quantization | None,
    typer.Option("--quantize", help="Quantise float weights to this type; fp8 needs a GPU.", show_default=False),
]
SPECULATE_HELP = (
    "Compute tokens ahead: off; ngram, where the answer repeats the prompt or itself; or also what a smaller model of "
    "the same vocabulary drafts. The answer is the same. Default: off"
)
SPECULATE_VALUES = "off|ngram|MODEL"
Speculate = Annotated[
    str | None,
    typer.Option(
        "--speculate",
        metavar=SPECULATE_VALUES,
        help=f"{SPECULATE_HELP}.",
        callback=check_speculate,
        show_default=False,
    ),
]
RemoteSpeculate = Annotated[
    str | None,
    typer.Option(
        "--speculate",
        metavar=SPECULATE_VALUES,
        help=f"{SPECULATE_HELP}; the server's setting with --base-url, where draft is the server's draft model.",
        show_default=False,
    ),
]
SpeechPrecision = Annotated[
    Precision,
    typer.Option("--precision", help="fast: 16-bit floats where the processor has them; fp32: always 32-bit."),
]
Adapter = Annotated[
    Path | None,
    typer.Option(
        "--adapter",
        metavar="PATH",
        help="LoRA adapter for the model: a folder as PEFT saves it, or a GGUF file.",
        show_default=False,
    ),
]
BaseURL = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Use this running server instead of loading the model (or set ANTIPHON_BASE_URL).",
        show_default=False,
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--api-key-file",
        metavar="FILE",
        help="File with the server's API key (or set ANTIPHON_API_KEY).",
        show_default=False,
    ),
]
Local = Annotated[bool, typer.Option("--local", help="Load the model here even if ANTIPHON_BASE_URL is set.")]
Profile = Annotated[bool, typer.Option("--profile", help="Print a profile of the steps afterwards.")]
NoRecord = Annotated[
    bool,
    typer.Option(
        "--no-record", help="Run operations one by one instead of as one compiled program (slower, same output)."
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write a timeline that Perfetto or chrome://tracing can show.",
        show_default=False,
        callback=_check_trace,
    ),
]


def sampling_settings(**given: Any) -> dict[str, Any]:
    """What was asked for, under the names of `SamplingParams`; senseless values are rejected here."""
    from antiphon.engine.sampling_params import SamplingParams

    if "stop" in given:
        given["stop"] = tuple(given["stop"] or ()) or None
    settings = {name: value for name, value in given.items() if value is not None}
    with usage_errors():
        SamplingParams(**settings)
    return settings


def grammar_of(json_schema: str | None, regex: str | None, choice: list[str] | None) -> GrammarSpec | None:
    """What the answer must look like; at most one of the three may be given."""
    if not (json_schema or regex or choice):
        return None
    from antiphon.text.grammar_spec import GrammarSpec

    schema = None if json_schema is None else schema_of(json_schema)
    with usage_errors():
        return GrammarSpec(json_schema=schema, regex=regex, choice=tuple(choice) if choice else None)


def schema_of(json_schema: str) -> Any:
    """The schema that `--json-schema` gives or names a file of."""
    text = json_schema if json_schema.lstrip().startswith("{") else _read(Path(json_schema))
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"--json-schema is not JSON: {error}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"--json-schema is neither a schema nor a readable file: {error}") from error
