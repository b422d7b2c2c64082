"""`SamplingParams`: sampling settings and end conditions of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from antiphon.argument_types import as_set, as_tuple, check_fields
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import check_values

MAX_LOGPROBS = 20
#: Fields that are sets of tokens; any list, tuple or set of token ids may be given.
TOKEN_SETS = ("allowed_tokens", "banned_tokens", "stop_tokens")


@dataclass(frozen=True)
class SamplingParams:
    """Sampling settings and end conditions of an answer. A wrong value raises `InvalidRequestError` with the value.

    A temperature of 0 always takes the most likely token. `top_k` 0, `top_p` 1, `min_p` 0 and `typical_p` 1 are off.
    The same `seed` gives the same text. An answer ends at `max_tokens`, at the model's end token unless `ignore_eos`,
    or before `stop`, a string or one of several. `logprobs` is the number of most probable tokens that are reported
    beside each token's own log-probability; None reports nothing. `prompt_logprobs` reports log-probabilities of the
    prompt and turns the prefix cache off; `prompt_top_logprobs` is the number of most probable tokens beside each of
    them, by default that of `logprobs`, and adds the ranks of the prompt's tokens.

    Text has no control tokens unless `skip_special_tokens` is False, and it ends before the stop string or stop token
    unless `include_stop_str_in_output`.

    `speculate` is `off`, `ngram` or, where the engine has a draft model, `draft`; by default the engine's setting. It
    changes the speed, never the tokens. `prediction` is the expected answer, such as a text that is to be edited.

    Logits are changed in this order: grammar, allowed and banned tokens and minimum length; logit bias; penalties;
    temperature; then top-k, typical, top-p and min-p choose the tokens to sample from.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_tokens: frozenset[int] | None = None
    banned_tokens: frozenset[int] = frozenset()
    seed: int = 0
    min_tokens: int = 0
    max_tokens: int = 256
    stop: Sequence[str] = ()
    stop_tokens: frozenset[int] = frozenset()
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: bool = False
    prompt_top_logprobs: int | None = None
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    speculate: str | None = None
    prediction: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", as_tuple(self.stop))
        for name in TOKEN_SETS:
            object.__setattr__(self, name, as_set(getattr(self, name)))
        check_fields(self)
        check_values(
            (0 <= self.temperature <= 100, "temperature", self.temperature, "between 0 and 100"),
            (self.top_k >= 0, "top_k", self.top_k, "0 (off) or more"),
            (0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1"),
            (0 <= self.min_p <= 1, "min_p", self.min_p, "between 0 and 1"),
            (0 < self.typical_p <= 1, "typical_p", self.typical_p, "above 0 and at most 1"),
            (0 < self.repetition_penalty <= 100, "repetition_penalty", self.repetition_penalty, "above 0, at most 100"),
            (-100 <= self.presence_penalty <= 100, "presence_penalty", self.presence_penalty, "between -100 and 100"),
            (-100 <= self.frequency_penalty <= 100, "frequency_penalty", self.frequency_penalty, "within 100 of 0"),
            (self.allowed_tokens is None or bool(self.allowed_tokens), "allowed_tokens", "empty", "at least one token"),
            (-(2**63) <= self.seed < 2**63, "seed", self.seed, "a 64-bit integer"),
            (self.max_tokens >= 1, "max_tokens", self.max_tokens, "1 or more"),
            (0 <= self.min_tokens <= self.max_tokens, "min_tokens", self.min_tokens, f"0 to {self.max_tokens}"),
            (all(self.stop), "stop", self.stop, "non-empty strings"),
            (_is_count(self.logprobs), "logprobs", self.logprobs, "0 to 20"),
            (_is_count(self.prompt_top_logprobs), "prompt_top_logprobs", self.prompt_top_logprobs, "0 to 20"),
        )
        if self.speculate is not None:
            Speculation.parse(self.speculate)

    @property
    def has_penalties(self) -> bool:
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    @property
    def edits_logits(self) -> bool:
        return bool(
            self.has_penalties
            or self.logit_bias
            or self.allowed_tokens is not None
            or self.banned_tokens
            or self.min_tokens
            or self.typical_p < 1.0
        )


def _is_count(logprobs: int | None) -> bool:
    return logprobs is None or 0 <= logprobs <= MAX_LOGPROBS
