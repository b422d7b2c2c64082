"""Operations of speech synthesis: their reference implementations, and the native backend's."""
