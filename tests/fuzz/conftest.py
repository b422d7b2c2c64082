"""Fixtures of fuzzing tests."""

from support.fuzzing import many  # noqa: F401
