"""Pieces that the parser splits a model's output into."""

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
    """The beginning of the answer's call number `index`, from 0."""

    index: int
    name: str
    is_custom: bool = False


@dataclass(frozen=True)
class CallArguments:
    """A part of the arguments as JSON text, or of the input of a custom tool."""

    index: int
    text: str
    is_custom: bool = False


Piece = Content | Reasoning | CallStart | CallArguments
