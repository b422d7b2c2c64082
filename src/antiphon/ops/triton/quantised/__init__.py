"""Products with quantised weights on the GPU. Kernels read them as they are; only for many rows are they expanded."""
