"""The tasks of `antiphon eval`, one subject per file; `registry` has them by name."""
