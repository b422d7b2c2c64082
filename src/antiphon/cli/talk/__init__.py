"""`antiphon talk`: a conversation by voice in the terminal."""
