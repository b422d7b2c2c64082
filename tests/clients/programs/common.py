"""What the programs share: where the server is, and what they ask."""

from __future__ import annotations

import os

HOST = os.environ["CLIENT_HOST"]
BASE_URL = f"{HOST}/v1"
KEY = os.environ["CLIENT_KEY"]
CHAT = os.environ["CLIENT_CHAT_MODEL"]
EMBEDDING = os.environ["CLIENT_EMBEDDING_MODEL"]
QUESTION = "What is the weather in Paris?"
#: More tokens than the chat model's context holds.
LONG = "the cat sat on the mat " * 4000
SCHEMA = {
    "type": "object",
    "properties": {"sky": {"enum": ["blue", "grey"]}},
    "required": ["sky"],
    "additionalProperties": False,
}
