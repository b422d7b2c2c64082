"""How a voice session goes on: what is heard, the conversation, and who speaks when."""
