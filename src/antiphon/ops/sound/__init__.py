"""The operations of speech synthesis: their reference implementations, and those of the native backend."""
