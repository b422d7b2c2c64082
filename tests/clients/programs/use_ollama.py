"""ollama: chat, generate, embed, tools, formats, and what is installed and running."""

from __future__ import annotations

import json

import ollama
from common import CHAT, EMBEDDING, HOST, KEY, QUESTION, SCHEMA

client = ollama.Client(host=HOST, headers={"Authorization": f"Bearer {KEY}"})
messages = [{"role": "user", "content": QUESTION}]
options = {"temperature": 0, "num_predict": 12}

whole = client.chat(CHAT, messages, options=options)
assert whole.done and whole.message.content and whole.eval_count and whole.prompt_eval_count, whole
assert whole.total_duration > 0
pieces = list(client.chat(f"{CHAT}:latest", messages, options=options, stream=True))
assert "".join(piece.message.content or "" for piece in pieces) == whole.message.content
assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
assert client.generate(CHAT, "Once upon a time", options=options).response

formed = client.chat(CHAT, messages, format=SCHEMA, options={"temperature": 0, "num_predict": 60})
assert json.loads(formed.message.content)["sky"] in ("blue", "grey")

embedded = client.embed(EMBEDDING, ["one", "two"]).embeddings
assert len(embedded) == 2 and len(embedded[0]) == len(embedded[1]) > 1
names = [model.model for model in client.list().models]
assert any(name.split(":")[0] == CHAT for name in names), names
assert any((model.model or "").split(":")[0] == CHAT for model in client.ps().models)
assert client.show(CHAT).modelinfo is not None
try:
    client.chat("no-such-model", messages)
except ollama.ResponseError as error:
    assert error.status_code == 404 and "no-such-model" in error.error, error
else:
    raise AssertionError("an unknown model was accepted")
