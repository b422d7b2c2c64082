"""litellm: its OpenAI and Anthropic providers, and the exceptions that it makes of our errors."""

from __future__ import annotations

import litellm
from common import BASE_URL, CHAT, EMBEDDING, HOST, KEY, LONG, QUESTION

litellm.suppress_debug_info = True
messages = [{"role": "user", "content": QUESTION}]
ours = dict(api_base=BASE_URL, api_key=KEY, num_retries=0)

answer = litellm.completion(f"openai/{CHAT}", messages=messages, max_tokens=12, temperature=0, **ours)
assert answer.choices[0].message.content and answer.usage.completion_tokens, answer
stream = litellm.completion(f"openai/{CHAT}", messages=messages, max_tokens=12, temperature=0, stream=True, **ours)
text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
assert text == answer.choices[0].message.content, (text, answer)
vectors = litellm.embedding(f"openai/{EMBEDDING}", input=["one", "two"], encoding_format="float", **ours)
assert len(vectors.data) == 2

claude = litellm.completion(
    f"anthropic/{CHAT}", messages=messages, max_tokens=12, temperature=0, api_base=HOST, api_key=KEY, num_retries=0
)
assert claude.choices[0].message.content == answer.choices[0].message.content, claude

try:
    litellm.completion(f"openai/{CHAT}", messages=[{"role": "user", "content": LONG}], **ours)
except litellm.ContextWindowExceededError:
    pass
else:
    raise AssertionError("a prompt that is too long was accepted")
try:
    litellm.completion(f"openai/{CHAT}", messages=messages, api_base=BASE_URL, api_key="wrong", num_retries=0)
except litellm.AuthenticationError:
    pass
else:
    raise AssertionError("a wrong key was accepted")
