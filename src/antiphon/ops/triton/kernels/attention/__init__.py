"""Attention over pages and over sequences, and what writes the pages."""
