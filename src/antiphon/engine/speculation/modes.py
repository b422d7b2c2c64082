"""`Speculation`: sources of drafted tokens."""

from __future__ import annotations

from enum import StrEnum

from antiphon.errors import InvalidRequestError


class Speculation(StrEnum):
    """Sources of drafted tokens.

    `off`: every step computes one token. `ngram`: drafts are tokens that followed the same n-gram earlier in the prompt
    or the answer, and tokens that a grammar forces. `draft`: a draft model drafts tokens too.
    """

    OFF = "off"
    NGRAM = "ngram"
    DRAFT = "draft"

    @classmethod
    def parse(cls, value: str) -> Speculation:
        """Parse a name; `InvalidRequestError` lists the names."""
        if value not in list(cls):
            raise InvalidRequestError(f"speculate is {value!r}; it must be one of: {', '.join(cls)}")
        return cls(value)

    @classmethod
    def of_engine(cls, value: str) -> Speculation:
        """Return the mode of an engine's setting: `off` and `ngram` by name; any other value names a draft model."""
        return cls(value) if value in (cls.OFF, cls.NGRAM) else cls.DRAFT
