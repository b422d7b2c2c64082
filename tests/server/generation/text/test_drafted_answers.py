"""`speculate` and `prediction` over HTTP: the same tokens, and what was drafted and accepted in usage and metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from antiphon.engine.speculation.modes import Speculation
from antiphon.server.generation.parameters.request_schemas import SamplingBody
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.models.tiny_model import CONTEXT, vocabulary
from support.server.http_server import RunningServer, running_server
from support.waiting import wait_until

MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]
CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
#: Each is a token of its own in every text of them.
LETTERS = [vocabulary().index(letter) for letter in "abcd"]
ASKED: dict[str, Any] = {"temperature": 0, "ignore_eos": True, "allowed_token_ids": LETTERS}
OPTIONS: dict[str, Any] = {"kv_bytes": 16 << 20}


@pytest.fixture
def drafting(chat_folder: Path) -> Iterator[RunningServer]:
    """A model that has drafted nothing yet: a first draft is computed before its cost is known, so it is certain."""
    with running_server(ServerConfig(models=(ModelSpec.of(str(chat_folder)),), offline=True), OPTIONS) as running:
        yield running


def post(server: RunningServer, path: str = CHAT, model: str = "tiny-chat", **fields: Any) -> httpx.Response:
    given: dict[str, Any] = {CHAT: {"messages": MESSAGES}, COMPLETIONS: {"prompt": "hello"}}.get(path, {"input": "a"})
    return httpx.post(server.url + path, json={"model": model, **given, **fields}, timeout=60)


def predicted(text: str) -> dict[str, Any]:
    return {"type": "content", "content": [{"type": "text", "text": text[:5]}, {"type": "text", "text": text[5:]}]}


def counts(usage: dict[str, Any]) -> tuple[int, int]:
    """Drafted and accepted tokens."""
    details = usage["completion_tokens_details"]
    accepted = details["accepted_prediction_tokens"]
    return accepted + details["rejected_prediction_tokens"], accepted


def samples(server: RunningServer, name: str) -> dict[str, float]:
    """Of tiny-chat, by position where there is one."""
    families = text_string_to_metric_families(server.metrics())
    return {
        sample.labels.get("position", ""): sample.value
        for family in families
        for sample in family.samples
        if sample.name == f"antiphon:spec_decode_num_{name}_total" and sample.labels["model_name"] == "tiny-chat"
    }


def test_a_predicted_answer_is_the_same_and_is_counted(
    drafting: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    plain = post(drafting, **ASKED, max_tokens=24).json()
    text, details = plain["choices"][0]["message"]["content"], plain["usage"]["completion_tokens_details"]
    assert details == {"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    assert len(text) == 24 and not samples(drafting, "draft_tokens")

    off = post(drafting, **ASKED, max_tokens=24, prediction=predicted(text), speculate=False, timings=True).json()
    assert off["choices"] == plain["choices"] and "draft_n" not in off["usage"]["timings"]
    assert off["usage"]["completion_tokens_details"] == details

    with caplog.at_level(logging.INFO, "antiphon.server"):
        ahead = post(drafting, **ASKED, max_tokens=24, prediction=predicted(text), timings=True).json()
        logged = lambda: [getattr(line, "fields", {}) for line in caplog.records]  # noqa: E731
        wait_until(lambda: any("drafted_tokens" in fields for fields in logged()), "drafts in the log", seen=logged)
    assert ahead["choices"] == plain["choices"]
    drafted, accepted = counts(ahead["usage"])
    assert 24 > drafted >= accepted > 0
    timings = ahead["usage"]["timings"]
    assert (timings["draft_n"], timings["draft_n_accepted"]) == (drafted, accepted)
    logged = [line.fields for line in caplog.records if "drafted_tokens" in getattr(line, "fields", {})]  # type: ignore[attr-defined]
    assert [(one["drafted_tokens"], one["accepted_tokens"]) for one in logged] == [(drafted, accepted)]
    counted = [samples(drafting, name)[""] for name in ("draft_tokens", "accepted_tokens", "drafts")]
    assert counted[:2] == [drafted, accepted] and 0 < counted[2] <= drafted
    assert sum(samples(drafting, "accepted_tokens_per_pos").values()) == accepted


def test_a_stream_reports_the_same(drafting: RunningServer) -> None:
    asked = dict(**ASKED, max_tokens=24)
    text = post(drafting, **asked).json()["choices"][0]["message"]["content"]
    prediction = {"type": "content", "content": text}
    options = {"include_usage": True}
    answer = post(drafting, **asked, prediction=prediction, stream=True, stream_options=options).text
    assert text == "".join(
        chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks(answer) if chunk["choices"]
    )
    drafted, accepted = counts(chunks(answer)[-1]["usage"])
    assert 24 > drafted >= accepted > 0


def chunks(stream: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: {")]
    return [httpx.Response(200, text=line).json() for line in lines]


@pytest.mark.parametrize("speculate", ["off", "ngram", True, False, None])
def test_every_way_to_ask_for_it(server: RunningServer, speculate: str | bool | None) -> None:
    asked = {**ASKED, "speculate": speculate}
    texts = {post(server, COMPLETIONS, **asked, max_tokens=40).json()["choices"][0]["text"]}
    texts.add(post(server, COMPLETIONS, **ASKED, max_tokens=40).json()["choices"][0]["text"])
    assert len(texts) == 1
    asked = {"speculate": speculate, "max_output_tokens": 8, "temperature": 0}
    assert post(server, RESPONSES, **asked).json()["status"] == "incomplete"


def test_the_body_knows_every_mode() -> None:
    annotation = SamplingBody.model_fields["speculate"].annotation
    modes = {value for part in get_args(annotation) for value in get_args(part)}
    assert modes == {*Speculation, True, False}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES])
def test_a_server_without_a_draft_model(server: RunningServer, path: str) -> None:
    answer = post(server, path, speculate="draft")
    assert answer.status_code == 400 and "has no draft model" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES])
@pytest.mark.parametrize("speculate", ["medusa", "on", 7, ["ngram"]])
def test_wrong_modes(server: RunningServer, path: str, speculate: Any) -> None:
    answer = post(server, path, speculate=speculate)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "speculate"
    assert "'off', 'ngram', 'draft', True or False" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("prediction", "param"),
    [
        ("hello", "prediction"),
        ({"type": "content"}, "prediction.content"),
        ({"type": "text", "content": "hello"}, "prediction.type"),
        ({"type": "content", "content": 7}, "prediction.content"),
        ({"type": "content", "content": [{"type": "image_url", "text": "a"}]}, "prediction.content"),
        ({"type": "content", "content": [{"type": "text"}]}, "prediction.content"),
    ],
)
def test_predictions_of_a_wrong_form(server: RunningServer, prediction: Any, param: str) -> None:
    answer = post(server, prediction=prediction, max_tokens=2)
    assert answer.status_code == 400 and answer.json()["error"]["param"].startswith(param), answer.text


def test_a_prediction_longer_than_the_context(server: RunningServer) -> None:
    longest = {"type": "content", "content": "a" * CONTEXT}
    assert post(server, prediction=longest, max_tokens=2).status_code == 200
    answer = post(server, prediction={"type": "content", "content": "a" * (CONTEXT + 1)}, max_tokens=2)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "prediction"
    message = f"prediction has {CONTEXT + 1} tokens; the context of model 'tiny-chat' has {CONTEXT}"
    assert answer.json()["error"]["message"] == message
    nothing = {"type": "content", "content": ""}
    assert post(server, prediction=nothing, max_tokens=2).status_code == 200
