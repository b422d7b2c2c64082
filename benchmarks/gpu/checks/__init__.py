"""Checks of a device's backend and engine, one subject a file; `run_checks` runs them all."""
