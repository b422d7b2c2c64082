"""Programs as people run them, on terminals."""
