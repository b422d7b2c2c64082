"""Products with weights in 16 or 32 bits, and the epilogue of a library's product."""
