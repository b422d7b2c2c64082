"""Costs and gains of settings: quality, speed and memory of each, relative to the first."""
