"""Products with quantised weights on the GPU. Kernels read weights as stored; for many rows they are expanded first."""
