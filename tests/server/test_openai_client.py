"""openai-python against the real server, compared with the engine embedded in this process."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import numpy as np
import openai
import pytest

from antiphon import Engine, SamplingParams
from antiphon.server.serving.setup.config import DEFAULT_ALIASES
from support.server.http_server import RunningServer

MESSAGES = [{"role": "user", "content": "hello"}]


def ids(text: str) -> list[int]:
    """Of printable characters, which are the first of the tiny vocabulary."""
    return [ord(character) - ord("!") for character in text]


@pytest.fixture(scope="module")
def engine(chat_folder: Path, encoder_folder: Path) -> Iterator[Engine]:
    with Engine(str(chat_folder), str(encoder_folder), kv_bytes=16 << 20) as made:
        yield made


def test_chat_is_what_the_engine_says(client: openai.OpenAI, engine: Engine) -> None:
    answer = client.chat.completions.create(model="tiny-chat", messages=MESSAGES, max_tokens=12, temperature=0)
    wanted = engine.generate([MESSAGES], SamplingParams(max_tokens=12), model="tiny-chat")[0]
    assert answer.choices[0].message.content == wanted.text
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12
    assert answer.usage.prompt_tokens == wanted.prompt_tokens
    assert answer.usage.total_tokens == wanted.prompt_tokens + 12
    assert answer.model == "tiny-chat"


def test_streams_add_up_to_the_whole(client: openai.OpenAI) -> None:
    details = dict(model="default-chat", messages=MESSAGES, max_completion_tokens=20, temperature=0.8, seed=3, n=2)
    whole = client.chat.completions.create(**details)
    texts, reasons, usage = ["", ""], [None, None], None
    for chunk in client.chat.completions.create(**details, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.message.content for choice in whole.choices]
    assert texts[0] != texts[1]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert usage is not None and whole.usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens_details is not None and usage.prompt_tokens_details.cached_tokens is not None


def test_without_a_seed_answers_differ(client: openai.OpenAI) -> None:
    details = dict(model="tiny-chat", messages=MESSAGES, max_tokens=12)
    answers = {client.chat.completions.create(**details).choices[0].message.content for _ in range(8)}
    assert len(answers) > 1


def test_json_schema(client: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "maximum": 99}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}}
    answer = client.chat.completions.create(
        model="tiny-chat", messages=MESSAGES, max_tokens=80, response_format=form, seed=1
    )
    assert answer.choices[0].finish_reason == "stop"
    jsonschema.validate(json.loads(answer.choices[0].message.content or ""), schema)


@pytest.mark.parametrize(
    ("extra", "fits"),
    [
        ({"guided_choice": ["red", "green"]}, lambda text: text in ("red", "green")),
        ({"guided_regex": "[0-9]{3}"}, lambda text: len(text) == 3 and text.isdecimal()),
        ({"guided_grammar": 'start: "a" "b"'}, lambda text: text == "ab"),
        ({"guided_json": {"enum": [7]}}, lambda text: json.loads(text) == 7),
    ],
    ids=["choice", "regex", "grammar", "json"],
)
def test_guided_forms(client: openai.OpenAI, extra: dict[str, object], fits: object) -> None:
    answer = client.completions.create(model="tiny-chat", prompt="hello", max_tokens=16, extra_body=extra)
    assert fits(answer.choices[0].text)  # type: ignore[operator]


def test_chat_logprobs(client: openai.OpenAI, engine: Engine) -> None:
    answer = client.chat.completions.create(
        model="tiny-chat", messages=MESSAGES, max_tokens=5, temperature=0, logprobs=True, top_logprobs=3
    )
    wanted = engine.generate([MESSAGES], SamplingParams(max_tokens=5, logprobs=3), model="tiny-chat")[0]
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None and wanted.logprobs is not None
    assert [entry.logprob for entry in logprobs.content] == pytest.approx(wanted.logprobs, abs=1e-5)
    assert "".join(entry.token for entry in logprobs.content) == answer.choices[0].message.content
    for entry in logprobs.content:
        assert len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob == max(top.logprob for top in entry.top_logprobs) == entry.logprob


def test_streamed_logprobs_are_those_of_the_whole(client: openai.OpenAI) -> None:
    details = dict(model="tiny-chat", messages=MESSAGES, max_tokens=9, temperature=0, logprobs=True, top_logprobs=1)
    whole = client.chat.completions.create(**details).choices[0].logprobs
    streamed = []
    for chunk in client.chat.completions.create(**details, stream=True):
        streamed += (chunk.choices[0].logprobs.content or []) if chunk.choices[0].logprobs else []
    assert whole is not None and [entry.token for entry in streamed] == [entry.token for entry in whole.content or []]


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_echo_scores_the_prompt(client: openai.OpenAI, engine: Engine, max_tokens: int) -> None:
    """What lm-eval asks for: log-probabilities of a prompt's own tokens, and what would have been likeliest."""
    prompts = [ids("Thechoirsings."), ids("Onceuponatime,")]
    answer = client.completions.create(
        model="tiny-chat", prompt=prompts, max_tokens=max_tokens, echo=True, logprobs=1, temperature=0
    )
    params = SamplingParams(max_tokens=1, prompt_logprobs=True, logprobs=1)
    for choice, prompt in zip(answer.choices, prompts, strict=True):
        wanted = engine.generate([prompt], params, model="tiny-chat")[0]
        columns = choice.logprobs
        assert columns is not None and columns.token_logprobs is not None and columns.tokens is not None
        assert len(columns.tokens) == len(prompt) + max_tokens
        assert columns.token_logprobs[0] is None
        scores = columns.token_logprobs[1 : len(prompt)]
        assert scores == pytest.approx(wanted.prompt_logprobs, abs=1e-4)
        for score, top in zip(scores, (columns.top_logprobs or [])[1 : len(prompt)], strict=True):
            assert len(top) == 1 and max(top.values()) >= score
        assert choice.text == "".join(columns.tokens)
    assert answer.usage is not None and answer.usage.completion_tokens == 2 * max_tokens


def test_prompt_scores_agree_with_transformers(client: openai.OpenAI, chat_folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    prompt = ids("Thechoirsings.")
    answer = client.completions.create(model="tiny-chat", prompt=prompt, max_tokens=0, echo=True, logprobs=2)
    model = AutoModelForCausalLM.from_pretrained(chat_folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0, :-1, :264]
    scores = logits.log_softmax(-1)
    columns = answer.choices[0].logprobs
    assert columns is not None and columns.token_logprobs is not None
    wanted = scores.gather(-1, torch.tensor(prompt[1:])[:, None])[:, 0].tolist()
    assert columns.token_logprobs[1:] == pytest.approx(wanted, abs=2e-2)
    best = [max(top.values()) for top in (columns.top_logprobs or [])[1:]]
    assert best == pytest.approx(scores.max(-1).values.tolist(), abs=2e-2)


def test_completions_of_several_prompts(client: openai.OpenAI, engine: Engine) -> None:
    prompts = ["hello", "the cat", "a"]
    whole = client.completions.create(model="tiny-chat", prompt=prompts, n=2, max_tokens=6, temperature=0)
    wanted = engine.generate(prompts, SamplingParams(max_tokens=6), n=2, model="tiny-chat")
    assert [choice.index for choice in whole.choices] == list(range(6))
    assert [choice.text for choice in whole.choices] == [one.text for one in wanted]
    texts = [""] * 6
    for chunk in client.completions.create(
        model="tiny-chat", prompt=prompts, n=2, max_tokens=6, temperature=0, stream=True
    ):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [choice.text for choice in whole.choices]


def test_stop_strings_and_biases(client: openai.OpenAI) -> None:
    details = dict(model="tiny-chat", prompt="hello", max_tokens=10, temperature=0)
    text = client.completions.create(**details).choices[0].text
    stopped = client.completions.create(**details, stop=[text[4]]).choices[0]
    assert stopped.text == text[: text.index(text[4])] and stopped.finish_reason == "stop"
    first = client.completions.create(**details, extra_body={"stop_token_ids": []}).choices[0].text
    assert first == text
    other = client.completions.create(**details, logit_bias={str(ord("!") - 33): 100}).choices[0].text
    assert other != text


def test_embeddings(client: openai.OpenAI, engine: Engine) -> None:
    texts = ["hello", "the cat"]
    answer = client.embeddings.create(model="default-embedding", input=texts)  # base64 on the wire
    wanted = engine.embed(texts, model="bert")
    for row, vector in zip(answer.data, wanted, strict=True):
        np.testing.assert_allclose(row.embedding, vector.numpy(), atol=1e-5)
    plain = client.embeddings.create(model="bert", input="hello", encoding_format="float")
    np.testing.assert_allclose(plain.data[0].embedding, answer.data[0].embedding, atol=1e-6)
    short = client.embeddings.create(model="bert", input="hello", dimensions=4).data[0].embedding
    full = np.array(plain.data[0].embedding)[:4]
    np.testing.assert_allclose(short, full / np.linalg.norm(full), atol=1e-5)
    raw = client.embeddings.with_raw_response.create(model="bert", input="hello", encoding_format="base64")
    assert len(base64.b64decode(json.loads(raw.text)["data"][0]["embedding"])) == 4 * 16


def test_a_full_batch_of_embeddings(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="bert", input=[f"text {number}" for number in range(2048)])
    assert len(answer.data) == 2048 and answer.data[7].embedding != answer.data[8].embedding


def test_models(client: openai.OpenAI) -> None:
    names = {model.id for model in client.models.list()}
    assert names == {"tiny-chat", "bert", "tiny-llama3", "tiny-thinker", "tiny-plain", *DEFAULT_ALIASES}
    assert client.models.retrieve("default-chat").to_dict()["root"] == "tiny-chat"
    with pytest.raises(openai.NotFoundError, match="did you mean tiny-chat"):
        client.models.retrieve("tiny-cat")


def test_timings_and_harmless_fields(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny-chat",
        messages=MESSAGES,
        max_tokens=4,
        user="somebody",
        store=False,
        metadata={"a": "b"},
        extra_body={"timings": True},
    )
    assert answer.usage is not None
    timings = answer.usage.to_dict()["timings"]
    assert 0 < timings["time_to_first_token"] <= timings["total"]  # type: ignore[index]


def test_the_second_turn_finds_the_first_in_the_cache(client: openai.OpenAI) -> None:
    messages = [{"role": "user", "content": "a long enough beginning " * 8}]
    details = dict(model="tiny-chat", max_tokens=4, temperature=0, extra_body={"cache_salt": "turns"})
    first = client.chat.completions.create(messages=messages, **details)
    again = client.chat.completions.create(messages=messages, **details)
    assert first.usage is not None and again.usage is not None
    assert first.usage.prompt_tokens_details.cached_tokens == 0  # type: ignore[union-attr]
    assert again.usage.prompt_tokens_details.cached_tokens > 100  # type: ignore[union-attr,operator]
    assert again.choices[0].message.content == first.choices[0].message.content


def test_request_ids(server: RunningServer, client: openai.OpenAI) -> None:
    raw = client.models.with_raw_response.list(extra_headers={"x-request-id": "abc-1"})
    assert raw.headers["x-request-id"] == "abc-1"
    assert len(client.models.with_raw_response.list().headers["x-request-id"]) == 32
