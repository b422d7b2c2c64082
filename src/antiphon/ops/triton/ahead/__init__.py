"""Kernels compiled before a step needs them."""
