"""A window of sound on its way through the engine, and the segments that it gives."""
