"""The parameters of vLLM and llama.cpp, by their names: what they do is what the embedded engine does."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from antiphon import Engine, SamplingParams
from antiphon.text import grammar_spec
from antiphon.text.gbnf import lark_from_gbnf
from support.server.http_server import RunningServer

EOS = 263  # <|im_end|> of the tiny vocabulary
PROMPT = "hello the"
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def engine(chat_folder: Path) -> Iterator[Engine]:
    with Engine(str(chat_folder), kv_bytes=16 << 20) as made:
        yield made


class Caller:
    """Completions and chats as plain JSON. Both are also asked as streams where `stream` is given."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = httpx.post(self.url + path, json={"model": "tiny-chat", **body}, timeout=60)
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    def complete(self, **body: Any) -> dict[str, Any]:
        return self.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, **body})

    def chat(self, **body: Any) -> dict[str, Any]:
        return self.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 8, "temperature": 0, **body})

    def chunks(self, path: str, **body: Any) -> list[dict[str, Any]]:
        start: dict[str, Any] = {"model": "tiny-chat", "max_tokens": 8, "temperature": 0, "stream": True}
        start |= {"messages": MESSAGES} if "chat" in path else {"prompt": PROMPT}
        with httpx.stream("POST", self.url + path, json=start | body, timeout=60) as response:
            assert response.status_code == 200, response.read()
            lines = [line for line in response.iter_lines() if line.startswith("data: ")]
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    def text(self, **body: Any) -> str:
        return str(self.complete(**body)["choices"][0]["text"])

    def error(self, path: str = "/v1/completions", **body: Any) -> tuple[str, str, str]:
        start: dict[str, Any] = {"messages": MESSAGES} if "chat" in path else {"prompt": PROMPT}
        response = httpx.post(self.url + path, json={"model": "tiny-chat", **start, **body}, timeout=60)
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        return error["code"], error["param"], error["message"]

    def tokens(self, **body: Any) -> list[int]:
        return self.post("/tokenize", body)["tokens"]  # type: ignore[no-any-return]


@pytest.fixture
def caller(server: RunningServer) -> Caller:
    return Caller(server.url)


# -- structure ------------------------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9, "minimum": 1}}, "required": ["a"],
          "additionalProperties": False}  # fmt: skip
OPEN_SCHEMA = {key: value for key, value in SCHEMA.items() if key != "additionalProperties"}
YEAR = 'root ::= "in " year\nyear ::= [12] [0-9]{3}\n'
STRUCTURES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"structured_outputs": {"json": SCHEMA}}, {"guided_json": SCHEMA}),
    ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, {"guided_json": SCHEMA}),
    ({"structured_outputs": {"json": OPEN_SCHEMA, "disable_additional_properties": True}}, {"guided_json": SCHEMA}),
    ({"structured_outputs": {"regex": "[0-9]{5}"}}, {"guided_regex": "[0-9]{5}"}),
    ({"structured_outputs": {"choice": ["red", "blue"]}}, {"guided_choice": ["red", "blue"]}),
    ({"structured_outputs": {"grammar": 'start: "a" | "b"'}}, {"guided_grammar": 'start: "a" | "b"'}),
    ({"structured_outputs": {"grammar": YEAR}}, {"guided_regex": "in [12][0-9]{3}"}),
    ({"guided_grammar": YEAR}, {"guided_regex": "in [12][0-9]{3}"}),
    ({"grammar": YEAR}, {"guided_regex": "in [12][0-9]{3}"}),
    ({"json_schema": SCHEMA}, {"guided_json": SCHEMA}),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"guided_json": SCHEMA}),
    ({"guided_json": json.dumps(SCHEMA)}, {"guided_json": SCHEMA}),
    ({"guided_json": SCHEMA, "json_schema": SCHEMA}, {"guided_json": SCHEMA}),
]


@pytest.mark.parametrize(("asked", "same"), STRUCTURES, ids=[json.dumps(asked)[:60] for asked, _ in STRUCTURES])
def test_structures(caller: Caller, asked: dict[str, Any], same: dict[str, Any]) -> None:
    common = {"max_tokens": 60, "temperature": 1.0, "seed": 3}
    text = caller.text(**asked, **common)
    assert text == caller.text(**same, **common) != caller.text(**common)
    chat = caller.chat(**asked, **common)["choices"][0]["message"]["content"]
    assert chat == caller.chat(**same, **common)["choices"][0]["message"]["content"]
    streamed = caller.chunks("/v1/completions", **asked, **common)
    assert "".join(chunk["choices"][0]["text"] for chunk in streamed) == text


def test_grammars_are_read_off_the_event_loop(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: list[bool] = []

    def reading(text: str) -> str:
        on_loop.append(asyncio._get_running_loop() is not None)
        return lark_from_gbnf(text)

    monkeypatch.setattr(grammar_spec, "lark_from_gbnf", reading)
    caller.complete(grammar=YEAR)
    caller.chat(grammar=YEAR)
    assert on_loop and not any(on_loop)


def test_whitespace_of_json(caller: Caller) -> None:
    array = {"type": "array", "items": {"const": 1}, "minItems": 3, "maxItems": 3}
    tight = {"structured_outputs": {"json": array, "disable_any_whitespace": True}}
    assert caller.text(**tight, max_tokens=60) == "[1,1,1]"
    blanks: dict[str, Any] = {"logit_bias": {" ": 100}, "max_tokens": 60}  # where they are allowed
    assert caller.text(guided_json=array, **blanks) == "[1, 1, 1]"
    wide = caller.text(structured_outputs={"json": array, "whitespace_pattern": "  "}, **blanks)
    assert json.loads(wide) == [1, 1, 1] and wide.count("  ") >= 3
    assert caller.text(guided_json=array, guided_whitespace_pattern="  ", **blanks) == wide


@pytest.mark.parametrize(("asked", "code", "param", "message"), [
    ({"structured_outputs": {"structural_tag": "{}"}}, "unsupported_value", "structured_outputs.structural_tag", "not"),
    ({"structured_outputs": {}}, "invalid_value", "structured_outputs", "none of json, regex"),
    ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "invalid_value", "structured_outputs", "only one"),
    ({"grammar": "root ::= missing"}, "invalid_schema", "grammar", "line 1 of the grammar: rule 'missing' is not"),
    ({"grammar": YEAR, "guided_json": SCHEMA}, "invalid_value", "guided_json", "guided_json and grammar were given"),
    ({"json_schema": {"type": 3}}, "invalid_schema", None, ""),
    ({"json_schema": "{"}, "invalid_schema", "json_schema", "is not JSON"),
    ({"guided_whitespace_pattern": " "}, "invalid_value", "guided_whitespace_pattern", "requires guided_json"),
    ({"structured_outputs": {"json": SCHEMA, "whitespace_pattern": "("}}, "invalid_schema", None, ""),
])  # fmt: skip
def test_wrong_structures(caller: Caller, asked: dict[str, Any], code: str, param: str | None, message: str) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        error = caller.error(path, **asked)
        if param is not None:
            assert error[:2] == (code, param)
        assert message in error[2]


#: Beyond limits: of numbers that Python writes out, and of what the parser follows, found at the first "a".
LARGE_GRAMMARS = {
    'root ::= "a"' + "{2000}" * 2_000: "expands to 4,000,000 elements; at most 20,000 are allowed",
    "root ::= " + '"a"? ' * 900: "items; max is 2000",
}


@pytest.mark.parametrize("grammar", LARGE_GRAMMARS, ids=["repetitions", "items"])
def test_grammars_beyond_the_limits_of_the_parser(caller: Caller, grammar: str) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        for asked in ({"grammar": grammar}, {"guided_grammar": grammar}, {"structured_outputs": {"grammar": grammar}}):
            assert LARGE_GRAMMARS[grammar] in caller.error(path, **asked, logit_bias={"a": 100})[2]


# -- sampling -------------------------------------------------------------------------------------------------------

DRAWN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"repeat_penalty": 3.0}, {"repetition_penalty": 3.0}),
    ({"repeat_penalty": 3.0, "repetition_penalty": 3.0}, {"repetition_penalty": 3.0}),
    ({"typ_p": 0.4}, {"typical_p": 0.4}),
    ({"top_k": -1}, {"top_k": 0}),
    ({"n_predict": 5, "max_tokens": None}, {"max_tokens": 5}),
    ({"logit_bias": [[5, 9.0]]}, {"logit_bias": {5: 9.0}}),
    ({"logit_bias": [["!", 9.0], ["hello", -3]]}, {"logit_bias": {0: 9.0, 259: -3.0}}),
    ({"logit_bias": {"hello": 9.0, "7": 2.0}}, {"logit_bias": {259: 9.0, 7: 2.0}}),
    ({"logit_bias": [[token, False] for token in range(40)]}, {"banned_tokens": frozenset(range(40))}),
    ({"logit_bias": {"!": False}, "banned_token_ids": [7]}, {"banned_tokens": frozenset({0, 7})}),
]


@pytest.mark.parametrize(("asked", "wanted"), DRAWN, ids=[json.dumps(asked)[:60] for asked, _ in DRAWN])
def test_sampling(caller: Caller, engine: Engine, asked: dict[str, Any], wanted: dict[str, Any]) -> None:
    common: dict[str, Any] = dict(temperature=1.2, top_p=1.0, max_tokens=16, seed=7)
    expected = engine.generate([PROMPT], SamplingParams(**{**common, **wanted}), model="tiny-chat")[0]
    assert caller.text(**{**common, **asked}) == expected.text
    chunks = caller.chunks("/v1/completions", **{**common, **asked})
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == expected.text


@pytest.mark.parametrize(("asked", "param", "message"), [
    ({"repeat_penalty": 2.0, "repetition_penalty": 3.0}, "repeat_penalty", "repetition_penalty and repeat_penalty"),
    ({"typ_p": 0.3, "typical_p": 0.4}, "typ_p", "typical_p and typ_p differ"),
    ({"n_predict": 3, "max_tokens": 4}, "n_predict", "max_tokens and n_predict differ"),
    ({"logit_bias": [[5]]}, "logit_bias", ""),
    ({"logit_bias": [[5, True]]}, "logit_bias", ""),
    ({"logit_bias": [[9999, 1]]}, "logit_bias", "token id 9999 is outside the vocabulary of 264 tokens"),
    ({"logit_bias": {"": 1}}, "logit_bias", "an empty text has no tokens"),
    ({"logit_bias": {"a" * 257: 1}}, "logit_bias", "a text has 257 characters; at most 256 are allowed"),
    ({"logit_bias": [[5, 101]]}, "logit_bias", ""),
    ({"prompt_logprobs": 21}, "prompt_logprobs", "less than or equal to 20"),
    ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs", "cannot be streamed"),
    ({"n_predict": -3}, "n_predict", ""),
    ({"min_tokens": 9, "max_tokens": 4}, "min_tokens", "min_tokens is 9; it must be 0 to 4"),
    ({"stop": ["a"] * 100}, "stop", "stop has 100 strings; at most"),
])  # fmt: skip
def test_wrong_values(caller: Caller, asked: dict[str, Any], param: str, message: str) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        error = caller.error(path, **asked)
        assert error[1].startswith(param) and message in error[2], error
    assert "max_completion_tokens and n_predict" in caller.error(
        "/v1/chat/completions", n_predict=3, max_completion_tokens=4
    )[2]  # fmt: skip


def test_minus_one_is_random_or_unlimited(caller: Caller) -> None:
    texts = {caller.text(seed=-1, temperature=2.0, max_tokens=16) for _ in range(4)}
    assert len(texts) > 1
    for length in ({"n_predict": -1, "max_tokens": None}, {"max_tokens": -1}):
        assert len(caller.text(**length, stop=["zzzz"], guided_regex="a{40}")) == 40  # beyond the default of 16


def test_n_probs(caller: Caller) -> None:
    assert caller.complete(n_probs=3)["choices"][0]["logprobs"] == caller.complete(logprobs=3)["choices"][0]["logprobs"]
    plain = caller.chat(logprobs=True, top_logprobs=3)["choices"][0]
    assert caller.chat(n_probs=3)["choices"][0]["logprobs"] == plain["logprobs"]
    assert caller.complete(n_probs=0)["choices"][0]["logprobs"] is None
    assert "logprobs and n_probs differ" in caller.error(n_probs=3, logprobs=2)[2]
    assert "logprobs and n_probs differ" in caller.error("/v1/chat/completions", n_probs=3, logprobs=False)[2]


def test_cache_prompt(caller: Caller) -> None:
    long = "uncached words here " * 12

    def cached(**more: Any) -> int:
        return int(caller.complete(prompt=long, **more)["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert cached(cache_prompt=False) == 0 and cached() == 0
    assert cached(cache_prompt=True) > 100 and cached(cache_prompt=False) == 0
    assert caller.text(prompt=long, cache_prompt=False) == caller.text(prompt=long)


# -- text -----------------------------------------------------------------------------------------------------------


def test_special_tokens_and_stops_in_the_text(caller: Caller) -> None:
    flat: dict[str, Any] = {"allowed_token_ids": [261, 262, EOS], "logit_bias": {"262": 5}, "ignore_eos": True}
    assert caller.text(**flat) == "" and caller.text(**flat, skip_special_tokens=True) == ""
    assert caller.text(**flat, skip_special_tokens=False) == "<|im_start|>" * 8
    ends: dict[str, Any] = {"allowed_token_ids": [EOS]}
    assert caller.text(**ends, skip_special_tokens=False) == ""
    both = {**ends, "skip_special_tokens": False, "include_stop_str_in_output": True}
    assert caller.text(**both) == "<|im_end|>" and caller.text(**ends, include_stop_str_in_output=True) == ""
    plain = caller.text(max_tokens=16)
    stop = plain[3:6]
    assert caller.text(max_tokens=16, stop=stop) == plain[: plain.index(stop)]
    assert caller.text(max_tokens=16, stop=stop, include_stop_str_in_output=True) == plain[: plain.index(stop) + 3]
    token = caller.complete(max_tokens=4, return_token_ids=True)["choices"][0]["token_ids"][3]
    cut = caller.text(max_tokens=16, stop_token_ids=[token])
    assert caller.text(max_tokens=16, stop_token_ids=[token], include_stop_str_in_output=True) == plain[: len(cut) + 1]
    streamed = caller.chunks("/v1/chat/completions", stop=["a", "e", "i", "o", "u"], include_stop_str_in_output=True)
    whole = caller.chat(stop=["a", "e", "i", "o", "u"], include_stop_str_in_output=True)["choices"][0]["message"]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in streamed) == whole["content"]


def test_token_ids(caller: Caller, engine: Engine) -> None:
    expected = engine.generate([PROMPT], SamplingParams(max_tokens=8), model="tiny-chat")[0]
    prompt = caller.tokens(prompt=PROMPT)
    choice = caller.complete(return_token_ids=True)["choices"][0]
    assert (choice["prompt_token_ids"], choice["token_ids"]) == (prompt, expected.token_ids)
    assert choice["logprobs"] is None
    chunks = caller.chunks("/v1/completions", return_token_ids=True)
    assert [chunk["choices"][0]["prompt_token_ids"] for chunk in chunks] == [prompt] + [None] * (len(chunks) - 1)
    assert [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]] == expected.token_ids
    ended = caller.complete(return_token_ids=True, allowed_token_ids=[EOS])["choices"][0]
    assert ended["token_ids"] == [EOS] and ended["finish_reason"] == "stop"

    chat_prompt = caller.tokens(messages=MESSAGES)
    answer = caller.chat(return_token_ids=True)
    assert answer["prompt_token_ids"] == chat_prompt and len(answer["choices"][0]["token_ids"]) == 8
    chunks = caller.chunks("/v1/chat/completions", return_token_ids=True)
    assert chunks[0]["prompt_token_ids"] == chat_prompt and "prompt_token_ids" not in chunks[1]
    streamed = [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]]
    assert streamed == answer["choices"][0]["token_ids"]


def test_tokens_as_token_ids(caller: Caller) -> None:
    choice = caller.complete(logprobs=2, return_tokens_as_token_ids=True, return_token_ids=True)["choices"][0]
    columns = choice["logprobs"]
    assert columns["tokens"] == [f"token_id:{token}" for token in choice["token_ids"]]
    assert all(name.startswith("token_id:") for top in columns["top_logprobs"] for name in top)
    asked: dict[str, Any] = {"logprobs": True, "top_logprobs": 2, "return_tokens_as_token_ids": True}
    entries = caller.chat(**asked)["choices"][0]["logprobs"]["content"]
    assert all(one["token"].startswith("token_id:") for entry in entries for one in (entry, *entry["top_logprobs"]))
    chunks = caller.chunks("/v1/completions", logprobs=0, return_tokens_as_token_ids=True)
    streamed = [name for chunk in chunks for name in (chunk["choices"][0]["logprobs"] or {"tokens": []})["tokens"]]
    assert streamed == columns["tokens"]


@pytest.fixture(scope="module")
def reference(chat_folder: Path) -> Any:
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(chat_folder, dtype=torch.float32).eval()


def test_prompt_logprobs_as_transformers_has_them(caller: Caller, reference: Any) -> None:
    answer = caller.complete(prompt_logprobs=3, return_token_ids=True, logprobs=1, echo=True)["choices"][0]
    ids = answer["prompt_token_ids"]
    chat = caller.chat(prompt_logprobs=0, return_token_ids=True)
    for prompt, found, count in ((ids, answer, 3), (chat["prompt_token_ids"], chat, 0)):
        assert len(found["prompt_logprobs"]) == len(prompt) and found["prompt_logprobs"][0] is None
        with torch.no_grad():
            logits = reference(torch.tensor([prompt])).logits[0, :, :264]
        for index, entry in enumerate(found["prompt_logprobs"][1:]):
            wanted = logits[index].log_softmax(-1)
            own = prompt[index + 1]
            order = wanted.argsort(descending=True).tolist()
            assert next(iter(entry)) == str(own)
            assert set(entry) == {str(own), *map(str, order[:count])}
            for token, value in entry.items():
                assert value["logprob"] == pytest.approx(float(wanted[int(token)]), rel=5e-3, abs=0.02)
                above = int((wanted > wanted[int(token)] + 0.05).sum())  # tokens of equal rank are counted
                assert above < value["rank"] <= int((wanted >= wanted[int(token)] - 0.05).sum())
    # What is echoed has its own number of likeliest tokens.
    assert all(len(top) == 1 for top in answer["logprobs"]["top_logprobs"][1:])
    several = caller.complete(prompt_logprobs=1, n=2, prompt=[PROMPT, "other"], temperature=1)["choices"]
    assert several[0]["prompt_logprobs"] == several[1]["prompt_logprobs"] != several[2]["prompt_logprobs"]


# -- choices and prompts --------------------------------------------------------------------------------------------


def test_best_of(caller: Caller) -> None:
    common: dict[str, Any] = {"temperature": 1.5, "seed": 11, "prompt": [PROMPT, "other"]}
    every = caller.complete(**common, n=6, logprobs=0)
    best = caller.complete(**common, n=2, best_of=6, logprobs=0)
    for prompt in range(2):
        group = every["choices"][6 * prompt : 6 * prompt + 6]

        def score(choice: dict[str, Any]) -> float:
            values = choice["logprobs"]["token_logprobs"]
            return math.fsum(values) / len(values)

        wanted = sorted(group, key=score, reverse=True)[:2]
        found = best["choices"][2 * prompt : 2 * prompt + 2]
        assert [choice["text"] for choice in found] == [choice["text"] for choice in wanted]
    assert [choice["index"] for choice in best["choices"]] == [0, 1, 2, 3]
    assert best["usage"] == every["usage"]
    without = caller.complete(**common, n=2, best_of=6)["choices"]
    assert [choice["text"] for choice in without] == [choice["text"] for choice in best["choices"]]
    assert without[0]["logprobs"] is None
    assert caller.text(best_of=1) == caller.text()
    assert "best_of is 1 and n is 2" in caller.error(n=2, best_of=1)[2]
    assert "omit stream" in caller.error(best_of=2, stream=True)[2]
    assert "at most 16 are allowed" in caller.error(best_of=17)[2]


def test_text_and_tokens_in_one_list(caller: Caller) -> None:
    ids = caller.tokens(prompt=PROMPT)
    texts = [choice["text"] for choice in caller.complete(prompt=[PROMPT, ids, [PROMPT[:5], *ids[1:]]])["choices"]]
    assert len(texts) == 3 and len(set(texts)) == 1
    assert caller.text(prompt=["hello", *ids[1:]]) == caller.text(prompt=[*ids[:1], " the"]) == texts[0]
    assert caller.text(prompt=[ids[0], " the"], echo=True, max_tokens=0) == PROMPT
    assert "token id 5000" in caller.error(prompt=["a", [5000]])[2]
    assert caller.error(prompt=["a", None])[1].startswith("prompt")


def test_a_suffix_needs_a_model_that_fills_in(caller: Caller) -> None:
    assert caller.error(suffix="end")[:2] == ("unsupported_value", "suffix")
    assert caller.error(suffix="end", echo=True)[1] == "echo"
    assert caller.text(suffix="") == caller.text()


def test_a_suffix_fills_in_the_middle(caller: Caller) -> None:
    def ids(text: str) -> list[int]:
        return caller.tokens(model="tiny-llama3", prompt=text, add_special_tokens=False)

    asked: dict[str, Any] = {"model": "tiny-llama3", "return_token_ids": True, "suffix": " the<|eot_id|>"}
    choice = caller.complete(**asked)["choices"][0]
    (prefix,), (suffix,), (middle,) = ids("<|fim_prefix|>"), ids("<|fim_suffix|>"), ids("<|fim_middle|>")
    (control,) = ids("<|eot_id|>")
    prompt = choice["prompt_token_ids"]
    assert prompt[: prompt.index(suffix)] == [prefix, *ids(PROMPT)] and prompt[-1] == middle
    assert control not in prompt  # what a suffix spells is text
    assert choice["text"] == caller.text(model="tiny-llama3", prompt=prompt)
    chunks = caller.chunks("/v1/completions", **asked)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == choice["text"]
    mixed = caller.complete(**{**asked, "prompt": [ids("hello")[0], " the"]})["choices"][0]
    assert mixed["prompt_token_ids"] == prompt
    ended = caller.complete(**asked, allowed_token_ids=[prefix])["choices"][0]
    assert ended["finish_reason"] == "stop" and ended["text"] == ""


# -- chats ----------------------------------------------------------------------------------------------------------


def test_the_last_message_is_continued(caller: Caller) -> None:
    begun = [*MESSAGES, {"role": "assistant", "content": "hello the <|im_end|> "}]
    whole = caller.tokens(messages=begun, add_generation_prompt=False)
    asked = {"messages": begun, "return_token_ids": True}
    answer = caller.chat(**asked, continue_final_message=True, add_generation_prompt=False)
    assert answer["prompt_token_ids"] == whole[:-2]  # without <|im_end|> and the line end
    written = caller.text(prompt=whole[:-2])
    assert answer["choices"][0]["message"]["content"] == written
    assert caller.chat(**asked, continue_final_message=True)["choices"] == answer["choices"]
    assert caller.chat(**asked, add_generation_prompt=False)["prompt_token_ids"] == whole
    chunks = caller.chunks("/v1/chat/completions", **asked, continue_final_message=True)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == written
    for wrong, message in (
        ({"messages": begun, "add_generation_prompt": True}, "cannot both be true"),
        ({}, "requires a last message of the assistant; its role is user"),
        ({"messages": [{"role": "assistant", "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": "{}"}}]}]}, "has calls"),
    ):  # fmt: skip
        assert message in caller.error("/v1/chat/completions", **wrong, continue_final_message=True)[2]


WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}},
           "required": ["city"], "additionalProperties": False}}  # fmt: skip


def test_functions_are_called(caller: Caller) -> None:
    asked: dict[str, Any] = {"functions": [WEATHER], "function_call": {"name": "weather"}, "max_tokens": 200, "seed": 1}
    choice = caller.chat(**asked)["choices"][0]
    assert choice["finish_reason"] == "function_call" and "tool_calls" not in choice["message"]
    call = choice["message"]["function_call"]
    assert call["name"] == "weather" and json.loads(call["arguments"])["city"] in ("Oslo", "Rome")
    tools = [{"type": "function", "function": WEATHER}]
    named = {"type": "function", "function": {"name": "weather"}}
    as_tool = caller.chat(tools=tools, tool_choice=named, max_tokens=200, seed=1)["choices"][0]["message"]
    assert as_tool["tool_calls"][0]["function"] == call
    deltas = [chunk["choices"][0] for chunk in caller.chunks("/v1/chat/completions", **asked)]
    calls = [choice["delta"]["function_call"] for choice in deltas if "function_call" in choice["delta"]]
    assert [part.get("name") for part in calls] == ["weather"] + [None] * (len(calls) - 1)
    assert "".join(part["arguments"] for part in calls) == call["arguments"]
    assert deltas[-1]["finish_reason"] == "function_call"
    assert not any("tool_calls" in choice["delta"] for choice in deltas)
    plain = caller.chat(functions=[WEATHER], function_call="none")["choices"][0]
    assert plain["message"]["content"] == caller.chat()["choices"][0]["message"]["content"]


def test_function_messages_are_tool_messages(caller: Caller) -> None:
    call = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    old = [*MESSAGES, {"role": "assistant", "content": None, "function_call": call},
           {"role": "function", "name": "weather", "content": "cold"}]  # fmt: skip
    tool_call = {"id": "call_weather", "type": "function", "function": call}
    new = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [tool_call]},
           {"role": "tool", "name": "weather", "tool_call_id": "call_weather", "content": "cold"}]  # fmt: skip
    assert caller.tokens(messages=old) == caller.tokens(messages=new)
    answer = caller.chat(messages=old, functions=[WEATHER], return_token_ids=True)
    tools = [{"type": "function", "function": WEATHER}]
    assert answer["prompt_token_ids"] == caller.tokens(messages=new, tools=tools)


@pytest.mark.parametrize(("asked", "param"), [
    ({"function_call": "auto"}, "function_call"),
    ({"functions": [WEATHER], "function_call": {"name": "other"}}, "function_call"),
    ({"functions": [WEATHER], "tools": [{"type": "function", "function": WEATHER}]}, "functions"),
    ({"functions": []}, "functions"),
    ({"functions": [WEATHER], "function_call": "required"}, "function_call"),
])  # fmt: skip
def test_wrong_functions(caller: Caller, asked: dict[str, Any], param: str) -> None:
    assert caller.error("/v1/chat/completions", **asked)[1].startswith(param)


def test_every_pair_of_lists_is_one_prompt_or_many() -> None:
    from antiphon.server.generation.text.prompts import several

    parts: list[Any] = ["a", 1, [1], ["a", 2]]
    for first, second in itertools.product(parts, parts):
        found = several([first, second])
        is_one = isinstance(first, int) or isinstance(second, int)
        assert len(found) == (1 if is_one else 2)
