"""Products with block-quantised weights on the GPU: the weights are read as they are quantised, and never expanded in memory
except for products with many rows."""
