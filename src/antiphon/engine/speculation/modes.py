"""`Speculation`: where the drafts of an answer come from."""

from __future__ import annotations

from enum import StrEnum

from antiphon.errors import InvalidRequestError


class Speculation(StrEnum):
    """`off`: every step computes one token. `ngram`: what followed the same tokens earlier in the prompt or the answer
    is computed beside it, and what a grammar leaves no choice of."""

    OFF = "off"
    NGRAM = "ngram"

    @classmethod
    def parse(cls, value: str) -> Speculation:
        """By its name; `InvalidRequestError` lists the names."""
        if value not in list(cls):
            raise InvalidRequestError(f"speculate is {value!r}; it must be one of: {', '.join(cls)}")
        return cls(value)
