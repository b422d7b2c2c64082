"""Our own source files."""
