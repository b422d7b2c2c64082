"""`logit_bias` in its forms: by token id or text, as an object or a list of pairs; `false` bans a token."""

from __future__ import annotations

from antiphon.errors import TooManyTokensError
from antiphon.server.generation.parameters.peer_parameters import LogitBias
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.setup.config import Limits
from antiphon.server.web.http.errors import invalid

#: Maximum characters of a key that is text: longer than any token of a vocabulary.
MAX_KEY_CHARACTERS = 256


def logit_bias(given: LogitBias | None, model: ReadyModel, limits: Limits) -> tuple[dict[int, float], frozenset[int]]:
    """Return the bias by token id, and the tokens that must never be sampled. A text biases each of its tokens."""
    pairs = list(given.items()) if isinstance(given, dict) else given or []
    if len(pairs) > limits.logit_bias:
        raise invalid(f"logit_bias has {len(pairs)} tokens; at most {limits.logit_bias} are allowed", "logit_bias")
    bias: dict[int, float] = {}
    banned: set[int] = set()
    for key, value in pairs:
        for token in _tokens(key, isinstance(given, dict), model, limits.logit_bias):
            if value is False:
                banned.add(token)
            else:
                bias[token] = float(value)
    if len(bias) + len(banned) > limits.logit_bias:
        message = f"logit_bias has {len(bias) + len(banned)} tokens; at most {limits.logit_bias} are allowed"
        raise invalid(message, "logit_bias")
    if len(banned) >= model.text.tokenizer.vocab_size:
        raise invalid("logit_bias leaves no token that is allowed", "logit_bias")
    return bias, frozenset(banned)


def _tokens(key: int | str, is_name: bool, model: ReadyModel, most: int) -> list[int]:
    """Return the tokens of a key. Raise `ApiError` if there are more than `most`.

    In an object, whose keys are text, a decimal number is a token id.
    """
    tokenizer = model.text.tokenizer
    if isinstance(key, str) and not (is_name and key.isascii() and key.isdecimal() and len(key) < 10):
        if len(key) > MAX_KEY_CHARACTERS:
            message = f"logit_bias: a text has {len(key)} characters; at most {MAX_KEY_CHARACTERS} are allowed"
            raise invalid(message, "logit_bias")
        try:
            ids = tokenizer.encode(key, add_special_tokens=False, max_tokens=most)
        except TooManyTokensError as error:
            message = f"logit_bias: a text has {error.counted} tokens; at most {error.limit} are allowed"
            raise invalid(message, "logit_bias") from None
        if not ids:
            raise invalid("logit_bias: an empty text has no tokens", "logit_bias")
        return ids
    token = int(key)
    if token >= tokenizer.vocab_size:
        message = f"logit_bias: token id {token} is outside the vocabulary of {tokenizer.vocab_size} tokens"
        raise invalid(message, "logit_bias")
    return [token]
