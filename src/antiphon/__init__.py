"""Antiphon: one inference engine for language and speech."""

__version__ = "0.1.0"
