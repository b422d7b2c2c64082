"""Parameters that vLLM and llama.cpp have in addition to OpenAI's, under their original names.

Parameters that mean the same as a field of `SamplingBody` are resolved in `parameter_aliases.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.web.http.schemas import Body

MAX_LOGPROBS = 20
Bias = Annotated[float, Field(ge=-100, le=100)] | Literal[False]
BiasedToken = Annotated[int, Field(ge=0, lt=2**31)] | str
#: Bias by token id or text, or a list of pairs. The bias `false` bans the token.
LogitBias = dict[str, Bias] | list[Annotated[tuple[BiasedToken, Bias], Field(strict=False)]]
#: JSON schema, as an object or as text.
SchemaSource = JsonSchema | str


class StructuredOutputs(Body):
    """vLLM's constraints on the output: exactly one of the first six fields."""

    json_: SchemaSource | None = Field(None, alias="json")
    regex: str | None = None
    choice: Annotated[list[str], Field(min_length=1)] | None = None
    #: GBNF if it has rules with `::=`, otherwise Lark.
    grammar: str | None = None
    json_object: bool | None = None
    #: Not supported.
    structural_tag: str | dict[str, Any] | None = None
    disable_any_whitespace: bool | None = None
    #: Close objects that do not say whether further properties are allowed.
    disable_additional_properties: bool | None = None
    whitespace_pattern: str | None = None
    #: Accepted without effect: there is one grammar compiler.
    disable_fallback: bool | None = None


class PeerParameters(Body):
    # vLLM
    structured_outputs: StructuredOutputs | None = None
    guided_whitespace_pattern: str | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    #: Report log-probabilities of the prompt's tokens, each with this number of likeliest alternatives.
    prompt_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    return_token_ids: bool | None = None
    #: Write tokens in `logprobs` as `token_id:123`.
    return_tokens_as_token_ids: bool | None = None
    #: Accepted without effect: text consists of the tokens' bytes.
    spaces_between_special_tokens: bool | None = None
    # llama.cpp
    #: Grammar in GBNF.
    grammar: str | None = None
    json_schema: SchemaSource | None = None
    #: -1 and -2 mean as long as the context allows.
    n_predict: Annotated[int, Field(ge=-2, lt=2**31)] | None = None
    n_probs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    repeat_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    typ_p: Annotated[float, Field(gt=0, le=1)] | None = None
    #: False computes the whole prompt, without the prefix cache.
    cache_prompt: bool | None = None
