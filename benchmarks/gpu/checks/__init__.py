"""Checks of a device's backend and engine, a file per subject; `run_checks` runs them all."""
