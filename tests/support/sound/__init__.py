"""Sounds, speech and its words."""
