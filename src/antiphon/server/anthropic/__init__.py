"""Anthropic's messages API, over the chats of this server."""
