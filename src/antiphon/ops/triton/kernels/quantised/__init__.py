"""Products with block-quantised weights, and with weights in e4m3."""
