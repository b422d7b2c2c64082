"""Tiny and random models, and other engines' answers to compare with."""
