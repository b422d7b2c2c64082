"""Transcription of speech while it is spoken."""
