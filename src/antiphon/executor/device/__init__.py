"""Executors of a GPU: rows, choices and states stay on the device, and results arrive later."""
