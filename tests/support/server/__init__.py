"""Servers in threads and processes of their own."""
