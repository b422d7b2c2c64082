"""Vocabularies, texts, and answers under grammars."""
