"""Options that control a language model's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.arguments.groups import OptionGroup
from antiphon.cli.terminal.files import read_text
from antiphon.errors import UsageError

if TYPE_CHECKING:
    from antiphon.text.grammar_spec import GrammarSpec

Temperature = Annotated[
    float | None,
    typer.Option(help="Randomness; 0 always takes the most likely token. Default: the model's own setting, else 0.7."),
]
AnswerSeed = Annotated[
    int | None,
    typer.Option("--seed", help="Random seed; the same seed gives the same text. Default: a new one for each answer."),
]
Seed = Annotated[int, typer.Option(help="Random seed; the same seed gives the same result.")]
MaxTokens = Annotated[int, typer.Option(help="Maximum length of the answer, in tokens.")]
Stop = Annotated[list[str] | None, typer.Option(help="Stop before this text; can be repeated.")]
System = Annotated[str | None, typer.Option(help="System message.")]
Raw = Annotated[bool, typer.Option("--raw", help="Send the prompt unchanged, without a chat template.")]


class Sampling(OptionGroup):
    """Sampling options. None selects the model's own setting, or else the default stated in the help."""

    temperature: Temperature = None
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Sample from the most likely tokens of this total probability. Default: the model's own, else 0.95."
        ),
    ] = None
    top_k: Annotated[
        int | None,
        typer.Option(help="Sample from this many most likely tokens; 0 means all. Default: the model's own, else 0."),
    ] = None
    min_p: Annotated[
        float | None,
        typer.Option(
            help="Drop tokens less likely than this share of the most likely one. Default: the model's own, else 0."
        ),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        typer.Option(help="Above 1 discourages tokens that already appeared. Default: the model's own, else 1."),
    ] = None
    presence_penalty: Annotated[
        float | None, typer.Option(help="Penalty for tokens that already appeared in the answer.")
    ] = None
    frequency_penalty: Annotated[
        float | None, typer.Option(help="Penalty for each time a token appeared in the answer.")
    ] = None


class AnswerForm(OptionGroup):
    """Required form of an answer; at most one of the three options may be given."""

    json_schema: Annotated[
        str | None,
        typer.Option(metavar="SCHEMA", help="Answer in JSON that matches this schema (a file, or the schema itself)."),
    ] = None
    regex: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Answer with text that matches this expression.")
    ] = None
    choice: Annotated[
        list[str] | None, typer.Option(help="Answer with one of these texts; repeat the option for each.")
    ] = None

    def schema(self) -> Any:
        """Return the schema given by `--json-schema`, inline or as a file name, or None."""
        text = self.json_schema
        if text is None:
            return None
        if not text.lstrip().startswith("{"):
            text = read_text(Path(text), "--json-schema is neither a schema nor a readable file")
        try:
            return json.loads(text)
        except ValueError as error:
            raise UsageError(f"--json-schema is not JSON: {error}") from error

    def grammar(self) -> GrammarSpec | None:
        """Return the required form as a grammar for an engine in this process, or None."""
        if not (self.json_schema or self.regex or self.choice):
            return None
        from antiphon.text.grammar_spec import GrammarSpec

        schema, choice = self.schema(), tuple(self.choice) if self.choice else None
        with usage_errors():
            return GrammarSpec(json_schema=schema, regex=self.regex, choice=choice)


def sampling_settings(**given: Any) -> dict[str, Any]:
    """Return the settings that are not None, after `SamplingParams` has checked them."""
    from antiphon.engine.sampling_params import SamplingParams

    if "stop" in given:
        given["stop"] = tuple(given["stop"] or ()) or None
    settings = {name: value for name, value in given.items() if value is not None}
    with usage_errors():
        SamplingParams(**settings)
    return settings
