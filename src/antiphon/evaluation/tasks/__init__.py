"""Tasks of `antiphon eval`, one subject per file; `registry` lists them by name."""
