"""The CUDA emitter: a recorded forward as launches of Triton kernels, captured in CUDA graphs."""
