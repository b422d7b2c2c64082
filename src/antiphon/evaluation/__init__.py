"""`antiphon eval`: the quality of a model's output, and the cost of settings in quality."""
