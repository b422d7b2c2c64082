"""Options that several commands share."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.errors import InvalidRequestError

if TYPE_CHECKING:
    from antiphon.text.grammar_spec import GrammarSpec


class Quantization(StrEnum):
    INT8 = "int8"
    Q4 = "q4"


class Precision(StrEnum):
    FAST = "fast"
    FP32 = "fp32"


ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Catalog name, file, folder, or hub:owner/repository[:file].")
]
# How to sample: None is the model's own setting (generation_config.json, GGUF metadata), else the default named here.
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        help="Randomness; 0 always takes the likeliest token. Default: the model's own setting, else 0.7.",
        show_default=False,
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        help="Sample from the likeliest tokens of this total probability. Default: the model's own, else 0.95.",
        show_default=False,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        help="Sample from this many likeliest tokens; 0 is all. Default: the model's own, else 0.",
        show_default=False,
    ),
]
MinP = Annotated[
    float | None,
    typer.Option(
        "--min-p",
        help="Drop tokens less likely than this share of the likeliest. Default: the model's own, else 0.",
        show_default=False,
    ),
]
Repetition = Annotated[
    float | None,
    typer.Option(
        "--repetition-penalty",
        help="Above 1 discourages tokens seen before. Default: the model's own, else 1.",
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
        "--seed", help="The same seed gives the same text. Default: another one for each answer.", show_default=False
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same text.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Longest answer.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", help="End before this text; may be repeated.")]
System = Annotated[str | None, typer.Option("--system", help="System message.", show_default=False)]
Offline = Annotated[bool, typer.Option("--offline", help="Fetch nothing; fail if the model is not here.")]
Raw = Annotated[bool, typer.Option("--raw", help="Continue the prompt as it is, without a chat template.")]
JsonSchema = Annotated[
    str | None,
    typer.Option("--json-schema", help="Answer with JSON of this schema: a file, or the schema.", show_default=False),
]
Regex = Annotated[
    str | None, typer.Option("--regex", help="Answer with text that matches this wholly.", show_default=False)
]
Choice = Annotated[
    list[str] | None, typer.Option("--choice", help="Answer with one of these; repeat it.", show_default=False)
]
KVMemory = Annotated[int, typer.Option("--kv-memory", help="Megabytes for keys and values.")]
KVType = Annotated[str, typer.Option("--kv-type", help="Type of keys and values: fp32, fp16, bf16 or int8.")]
NoRepack = Annotated[
    bool, typer.Option("--no-repack", help="Compute with quantised weights as the file has them: less memory, slower.")
]
Quantize = Annotated[
    Quantization | None,
    typer.Option("--quantize", help="Quantise weights that the file has as floats.", show_default=False),
]
SpeechPrecision = Annotated[
    Precision, typer.Option("--precision", help="Compute in 16-bit floats where the processor has them, or in 32 bits.")
]
Profile = Annotated[bool, typer.Option("--profile", help="Tell afterwards where the time of the steps went.")]
NoRecord = Annotated[
    bool, typer.Option("--no-record", help="Run operations one by one, not as a native program: same answers, slower.")
]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", help="Write a timeline for Perfetto or chrome://tracing.", show_default=False),
]


def sampling_settings(**given: Any) -> dict[str, Any]:
    """What was asked for, under the names of `SamplingParams`; senseless values are rejected here."""
    from antiphon.engine.sampling_params import SamplingParams

    if "stop" in given:
        given["stop"] = tuple(given["stop"] or ()) or None
    settings = {name: value for name, value in given.items() if value is not None}
    SamplingParams(**settings)
    return settings


def grammar_of(json_schema: str | None, regex: str | None, choice: list[str] | None) -> GrammarSpec | None:
    """What the answer must look like; at most one of the three may be asked for."""
    if not (json_schema or regex or choice):
        return None
    from antiphon.text.grammar_spec import GrammarSpec

    if json_schema is not None:
        text = json_schema if json_schema.lstrip().startswith("{") else _read(Path(json_schema))
        try:
            schema = json.loads(text)
        except ValueError as error:
            raise InvalidRequestError(f"--json-schema is not JSON: {error}") from error
        return GrammarSpec(json_schema=schema, regex=regex, choice=tuple(choice) if choice else None)
    return GrammarSpec(regex=regex, choice=tuple(choice) if choice else None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"--json-schema is neither a schema nor a readable file: {error}") from error
