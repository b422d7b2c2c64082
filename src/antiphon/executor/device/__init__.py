"""The executor of a decoder on a GPU: rows and choices stay on the device, and results arrive later."""
