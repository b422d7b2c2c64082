"""Sounds, recorded speech and its words."""
