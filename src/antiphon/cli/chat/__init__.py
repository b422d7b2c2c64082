"""`antiphon chat`: a conversation in the terminal, with a model in this process or on a server. Needs no torch."""
