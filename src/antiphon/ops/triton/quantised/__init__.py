"""Products with quantised weights on the GPU. Kernels read them as they are; only products with many rows expand them."""
