"""Servers in threads and in separate processes."""
