"""Text prepared for speech: spoken forms, clauses, phonemes, and when each word is heard."""
