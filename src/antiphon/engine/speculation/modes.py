"""`Speculation`: where the drafts of an answer come from."""

from __future__ import annotations

from enum import StrEnum

from antiphon.errors import InvalidRequestError


class Speculation(StrEnum):
    """`off`: every step computes one token. `ngram`: what followed the same tokens earlier in the prompt or the answer
    is computed beside it, and what a grammar leaves no choice of. `draft`: also what a draft model has drawn."""

    OFF = "off"
    NGRAM = "ngram"
    DRAFT = "draft"

    @classmethod
    def parse(cls, value: str) -> Speculation:
        """By its name; `InvalidRequestError` lists the names."""
        if value not in list(cls):
            raise InvalidRequestError(f"speculate is {value!r}; it must be one of: {', '.join(cls)}")
        return cls(value)

    @classmethod
    def of_engine(cls, value: str) -> Speculation:
        """`off` and `ngram` by their names; everything else is a draft model."""
        return cls(value) if value in (cls.OFF, cls.NGRAM) else cls.DRAFT
