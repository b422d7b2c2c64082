"""Executors on a GPU: rows, sampled tokens and states stay on the device, and results arrive later."""
