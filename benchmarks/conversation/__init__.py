"""Conversations with a server in real time, for `benchmarks/voice.py`."""
