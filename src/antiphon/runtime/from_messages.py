"""From the fields of a message to what the engine takes, checked on the way."""

from __future__ import annotations

from antiphon.engine.request import FinishReason, Priority
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError
from antiphon.runtime.messages import GrammarFields, SamplingFields
from antiphon.text.grammar_spec import GrammarSpec


def sampling_params(fields: SamplingFields, vocab_size: int) -> SamplingParams:
    """Checked, the token ids too: one that the vocabulary does not have would break the step for everybody in it."""
    for name in ("logit_bias", "allowed_tokens", "banned_tokens", "stop_tokens"):
        for token in getattr(fields, name) or ():
            if not 0 <= token < vocab_size:
                raise InvalidRequestError(
                    f"{name} has token id {token}, which is outside the vocabulary of {vocab_size} tokens"
                )
    values = {name: getattr(fields, name) for name in fields.__struct_fields__}
    values["allowed_tokens"] = None if fields.allowed_tokens is None else frozenset(fields.allowed_tokens)
    values["banned_tokens"] = frozenset(fields.banned_tokens)
    values["stop_tokens"] = frozenset(fields.stop_tokens)
    values["stop"] = tuple(fields.stop)
    return SamplingParams(**values)


def grammar_spec(fields: GrammarFields) -> GrammarSpec:
    return GrammarSpec(
        json_schema=fields.json_schema,
        json_object=fields.json_object,
        regex=fields.regex,
        choice=None if fields.choice is None else tuple(fields.choice),
        grammar=fields.grammar,
    )


def priority(value: int) -> Priority:
    try:
        return Priority(value)
    except ValueError:
        raise InvalidRequestError(f"priority is {value}; it must be 0 to {max(Priority).value}") from None


def abort_reason(name: str) -> FinishReason:
    allowed = (FinishReason.CANCELLED, FinishReason.DISCONNECTED, FinishReason.DEADLINE)
    return next((reason for reason in allowed if reason.value == name), FinishReason.CANCELLED)
