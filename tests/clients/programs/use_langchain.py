"""langchain-openai: chat, streams, tools, structured output and embeddings."""

from __future__ import annotations

from typing import Literal

from common import BASE_URL, CHAT, EMBEDDING, KEY, QUESTION
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Paris", "Rome"]


chat = ChatOpenAI(model=CHAT, base_url=BASE_URL, api_key=KEY, max_tokens=40, temperature=0, max_retries=0)
answer = chat.invoke(QUESTION)
assert answer.content and answer.usage_metadata["output_tokens"] > 0
assert "".join(str(piece.content) for piece in chat.stream(QUESTION)) == answer.content
called = chat.bind_tools([Weather], tool_choice="Weather").invoke(QUESTION)
assert called.tool_calls[0]["args"]["city"] in ("Paris", "Rome"), called
for method in ("json_schema", "function_calling"):
    formed = chat.with_structured_output(Weather, method=method).invoke(QUESTION)
    assert isinstance(formed, Weather), (method, formed)
responses = ChatOpenAI(
    model=CHAT, base_url=BASE_URL, api_key=KEY, max_tokens=20, temperature=0, use_responses_api=True, max_retries=0
)
assert responses.invoke(QUESTION).content
embeddings = OpenAIEmbeddings(model=EMBEDDING, base_url=BASE_URL, api_key=KEY, check_embedding_ctx_length=False)
assert len(embeddings.embed_documents(["one", "two"])) == 2
