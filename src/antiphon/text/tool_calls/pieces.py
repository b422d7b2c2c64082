"""The pieces that a model's output is split into."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Content:
    text: str


@dataclass(frozen=True)
class Reasoning:
    text: str


@dataclass(frozen=True)
class CallStart:
    """The `index`-th call of the answer begins."""

    index: int
    name: str
    is_custom: bool = False


@dataclass(frozen=True)
class CallArguments:
    """A part of the arguments as JSON, or of the input of a custom tool."""

    index: int
    text: str
    is_custom: bool = False


Piece = Content | Reasoning | CallStart | CallArguments
