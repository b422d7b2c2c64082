"""instructor: typed results in its modes for tools, JSON and JSON schema."""

from __future__ import annotations

from typing import Literal

import instructor
import openai
from common import BASE_URL, CHAT, KEY, QUESTION
from pydantic import BaseModel


class Weather(BaseModel):
    sky: Literal["blue", "grey"]
    windy: bool


for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS_STRICT):
    client = instructor.from_openai(openai.OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0), mode=mode)
    made = client.chat.completions.create(
        model=CHAT,
        response_model=Weather,
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=80,
        temperature=0,
        max_retries=0,
    )
    assert isinstance(made, Weather), (mode, made)
