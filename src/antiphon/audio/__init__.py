"""Sound in and out: decoding, resampling, log-mel frames, speech segments, encoding.

Sound inside Antiphon is float32, mono, in [-1, 1], at a stated rate. This package uses numpy; PyAV and soxr (the
`audio` extra) are imported when a call needs them.
"""
