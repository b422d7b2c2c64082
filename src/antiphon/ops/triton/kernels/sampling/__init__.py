"""Kernels that edit logits, and kernels that sample tokens from them."""
