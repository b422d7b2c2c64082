"""Cases and builds of operations and kernels."""
