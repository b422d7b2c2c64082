"""`antiphon eval`: how good a model's output is, and what a setting costs in quality."""
