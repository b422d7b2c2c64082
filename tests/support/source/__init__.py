"""Antiphon's own source files."""
