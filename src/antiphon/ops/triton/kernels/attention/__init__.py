"""Attention over pages and over sequences, and stores to the pages."""
