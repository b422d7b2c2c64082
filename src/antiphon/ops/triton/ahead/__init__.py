"""Compilation of kernels before a step needs them."""
