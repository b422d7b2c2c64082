"""A stored response streams again as it did; one in the background is followed, polled and cancelled."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response

from antiphon.server.generation.text.generation import Generations
from antiphon.server.web.http.errors import ApiError
from support.server.http_server import RunningServer
from support.waiting import wait_until

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "parameters": {
        "type": "object",
        "properties": {"a": {"enum": ["x", "y"]}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "strict": True,
}
LONG: dict[str, Any] = {"model": "tiny-chat", "input": "hello", "max_output_tokens": 3500}
CASES: dict[str, dict[str, Any]] = {
    "text": dict(model="tiny-chat", temperature=0, max_output_tokens=12),
    "logprobs": dict(model="tiny-chat", temperature=0, max_output_tokens=9, top_logprobs=2),
    "calls": dict(model="tiny-chat", tools=[TOOL], tool_choice="required", extra_body={"seed": 1}),
    "reasoning": dict(model="tiny-thinker", temperature=0, max_output_tokens=9),
    "empty": dict(model="tiny-chat", max_output_tokens=5, extra_body={"guided_regex": "", "seed": 1}),
}


def ended(client: openai.OpenAI, response_id: str) -> Response:
    """Return a response in the background once it has ended."""
    now = lambda: client.responses.retrieve(response_id)  # noqa: E731
    wait_until(lambda: now().status != "in_progress", "the response's end", seen=now)
    return now()


@pytest.mark.parametrize("details", CASES.values(), ids=CASES.keys())
def test_a_replay_is_the_stream_again(client: openai.OpenAI, details: dict[str, Any]) -> None:
    events = [event.to_dict() for event in client.responses.create(**details, input="hello", stream=True)]
    first: Any = events[0]
    response_id = first["response"]["id"]
    again = [event.to_dict() for event in client.responses.retrieve(response_id, stream=True)]
    assert again == events
    rest = client.responses.retrieve(response_id, stream=True, starting_after=4, include_obfuscation=False)
    assert [event.to_dict() for event in rest] == events[5:]
    assert list(client.responses.retrieve(response_id, stream=True, starting_after=10_000)) == []
    whole = client.responses.retrieve(response_id, starting_after=0, include=["file_search_call.results"])
    assert whole.to_dict() == events[-1]["response"]


def test_a_response_that_was_not_streamed(client: openai.OpenAI) -> None:
    made = client.responses.create(**CASES["text"], input="hello")
    streamed = list(client.responses.create(**CASES["text"], input="hello", stream=True))
    events = list(client.responses.retrieve(made.id, stream=True))
    kinds = [[event.type for event in one if not event.type.endswith(".delta")] for one in (events, streamed)]
    assert kinds[0] == kinds[1]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == made.output_text
    assert events[-1].response == made  # type: ignore[union-attr]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_none", stream=True)


def test_a_stream_to_another_request_is_not_followed(client: openai.OpenAI) -> None:
    stream = client.responses.create(**LONG, stream=True, extra_body={"ignore_eos": True})
    created: Any = next(iter(stream))
    with pytest.raises(openai.ConflictError) as refused:
        client.responses.retrieve(created.response.id, stream=True)
    assert refused.value.code == "response_in_progress"
    stream.close()


def test_in_the_background(client: openai.OpenAI) -> None:
    made = client.responses.create(**CASES["text"], input="hello", background=True)
    assert made.background and made.status in ("in_progress", "incomplete")
    done = ended(client, made.id)
    whole = client.responses.create(**CASES["text"], input="hello")
    assert done.output_text == whole.output_text and done.status == whole.status == "incomplete"
    more = client.responses.create(**CASES["text"], input="more", previous_response_id=made.id)
    assert more.previous_response_id == made.id
    events = list(client.responses.create(**CASES["text"], input="hello", background=True, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last: Any = events[-1]
    assert last.response.output_text == whole.output_text and last.response.background
    assert [event.to_dict() for event in client.responses.retrieve(last.response.id, stream=True)] == [
        event.to_dict() for event in events
    ]


@pytest.fixture
def stop_engine(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Stops the engine's process until something is cancelled, so that no answer ends before that."""
    pid, cancel = server.serving.client.pid, Generations.cancel
    assert pid is not None

    def cancel_and_continue(self: Generations) -> None:
        cancel(self)
        os.kill(pid, signal.SIGCONT)

    monkeypatch.setattr(Generations, "cancel", cancel_and_continue)
    yield lambda: os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)


def test_a_background_stream_that_is_left_goes_on(
    client: openai.OpenAI, server: RunningServer, stop_engine: Callable[[], None]
) -> None:
    stream = client.responses.create(**LONG, stream=True, background=True, extra_body={"ignore_eos": True})
    events = iter(stream)
    created: Any = next(events)
    while next(events).sequence_number < 8:
        pass
    stop_engine()
    stream.close()
    response_id = created.response.id
    assert client.responses.retrieve(response_id).status == "in_progress"
    followed = iter(client.responses.retrieve(response_id, stream=True, starting_after=3))
    assert next(followed).sequence_number == 4
    assert client.responses.cancel(response_id).status == "cancelled"
    last: Any = list(followed)[-1]
    assert last.response.status == "cancelled" and last.response.output_text
    assert client.responses.retrieve(response_id).status == "cancelled"
    assert client.responses.cancel(response_id).status == "cancelled"
    server.wait_until_idle()


def test_background_failures(client: openai.OpenAI, server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be refused at once is; a failure later is in the stored response."""
    with pytest.raises(openai.NotFoundError, match="no-such-model"):
        client.responses.create(model="no-such-model", input="hello", background=True)
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        client.responses.create(model="tiny-chat", input="ab" * 4000, background=True, stream=True)

    async def broken(self: Generations) -> Any:
        raise ApiError(500, "the step failed", code="engine_error")
        yield

    monkeypatch.setattr(Generations, "events", broken)
    made = client.responses.create(model="tiny-chat", input="hello", background=True)
    failed = ended(client, made.id)
    assert failed.status == "failed" and failed.error is not None and failed.error.message == "the step failed"
    monkeypatch.undo()
    monkeypatch.setattr(Generations, "events", _until_the_end)
    before = list(server.serving.requests)
    made = client.responses.create(model="tiny-chat", input="hello", background=True)
    assert made.status == "in_progress"
    now = [context for context in server.serving.requests if context.path == "/v1/responses"]
    (found,) = [context for context in now if context not in before]
    server.loop.call_soon_threadsafe(found.end_with, ApiError(504, "the request took too long", code="timeout"))
    assert ended(client, made.id).status == "failed"
    server.wait_until_idle()


async def _until_the_end(self: Generations) -> Any:
    import asyncio

    await asyncio.get_running_loop().create_future()
    yield


def test_a_client_cannot_claim_to_be_the_server(server: RunningServer) -> None:
    """The id of a background response is the server's, whatever a header says."""
    headers = {"antiphon.caller": "x", "x-antiphon-caller": "x"}
    body = {"model": "tiny-chat", "input": "hello", "max_output_tokens": 1}
    answer = httpx.post(server.url + "/v1/responses", json=body, headers=headers)
    assert answer.status_code == 200 and answer.json()["background"] is False


def test_a_background_request_may_be_tried_again(client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(self: Generations) -> None:
        raise ApiError(429, "the queue is full", code="overloaded", headers={"retry-after": "7"})

    monkeypatch.setattr(Generations, "open", full)
    with pytest.raises(openai.RateLimitError) as refused:
        client.responses.create(model="tiny-chat", input="hello", background=True)
    assert refused.value.response.headers["retry-after"] == "7"
