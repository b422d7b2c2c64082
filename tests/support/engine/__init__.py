"""Engines, executors and devices without a real model."""
