"""Written forms that are not words, by subject: each module has its tables and its `RULES`."""
