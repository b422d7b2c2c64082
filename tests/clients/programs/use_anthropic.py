"""anthropic: messages, streams, tools, counting, models and errors."""

from __future__ import annotations

import anthropic
from common import CHAT, HOST, KEY, LONG, QUESTION

client = anthropic.Anthropic(base_url=HOST, api_key=KEY, max_retries=0)
GREEDY = {"temperature": 0}
message = {"role": "user", "content": QUESTION}
tool = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]},
}

answer = client.messages.create(model=CHAT, max_tokens=12, messages=[message], system="Be brief.", extra_body=GREEDY)
assert answer.type == "message" and answer.role == "assistant" and answer.content[0].text, answer
assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0
assert answer.stop_reason in ("end_turn", "max_tokens")

with client.messages.stream(
    model=CHAT, max_tokens=12, messages=[message], system="Be brief.", extra_body=GREEDY
) as stream:
    text = "".join(stream.text_stream)
    final = stream.get_final_message()
assert text == final.content[0].text == answer.content[0].text, (text, answer)
assert final.usage.output_tokens == answer.usage.output_tokens

called = client.messages.create(
    model=CHAT, max_tokens=60, messages=[message], tools=[tool], tool_choice={"type": "any"}, extra_body=GREEDY
)
use = next(block for block in called.content if block.type == "tool_use")
assert called.stop_reason == "tool_use" and use.name == "get_weather" and use.input["city"] in ("Paris", "Rome")
result = {"type": "tool_result", "tool_use_id": use.id, "content": "18 degrees"}
history = [message, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
assert client.messages.create(model=CHAT, max_tokens=12, messages=history, tools=[tool]).content

counted = client.messages.count_tokens(model=CHAT, messages=[message], system="Be brief.")
assert counted.input_tokens == answer.usage.input_tokens, (counted, answer.usage)
assert CHAT in [model.id for model in client.models.list().data]

for wrong, error in (
    (dict(model=CHAT, max_tokens=4, messages=[{"role": "user", "content": LONG}]), anthropic.BadRequestError),
    (dict(model="no-such-model", max_tokens=4, messages=[message]), anthropic.NotFoundError),
):
    try:
        client.messages.create(**wrong)
    except error as raised:
        assert raised.body["type"] == "error" and raised.body["error"]["message"], raised.body
    else:
        raise AssertionError(f"no {error.__name__}")
try:
    anthropic.Anthropic(base_url=HOST, api_key="wrong", max_retries=0).messages.create(
        model=CHAT, max_tokens=4, messages=[message]
    )
except anthropic.AuthenticationError as raised:
    assert raised.body["error"]["type"] == "authentication_error", raised.body
else:
    raise AssertionError("a wrong key was accepted")
