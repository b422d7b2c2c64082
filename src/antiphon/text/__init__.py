"""Tokenizers, chat templates, incremental detokenizing and stop strings."""
