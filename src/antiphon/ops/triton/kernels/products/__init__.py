"""Products with weights in 16 or 32 bits, and what follows a library's."""
