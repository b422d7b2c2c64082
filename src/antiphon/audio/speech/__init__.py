"""Text on its way to being spoken: spoken forms, clauses, phonemes, and when each word is heard."""
