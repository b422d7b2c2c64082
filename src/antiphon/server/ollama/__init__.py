"""Ollama's API, over the chats, completions and embeddings of this server."""
