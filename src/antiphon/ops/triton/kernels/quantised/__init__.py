"""Products with weights in blocks or in 8-bit floats."""
