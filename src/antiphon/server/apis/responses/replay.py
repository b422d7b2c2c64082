"""Events of a stored response, identical to those sent while it was generated."""

from __future__ import annotations

import json
from collections.abc import Iterator

from antiphon.server.apis.responses.output import ARGUMENTS, SEARCH, Cuts, ResponseOutput
from antiphon.server.apis.responses.tools import CalledTool
from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, Reasoning

CALLS = (*ARGUMENTS, SEARCH)


def replay(body: WireEvent, cuts: Cuts) -> Iterator[WireEvent]:
    """Yield all events, numbered. `cuts` say how the text of each output item was divided into deltas."""
    for number, event in enumerate(_events(body, cuts)):
        yield {**event, "sequence_number": number}


def _events(body: WireEvent, cuts: Cuts) -> Iterator[WireEvent]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    begun |= {"completed_at": None, "error": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    calls = [item for item in body["output"] if item["type"] in CALLS]
    called = {
        f"{number}": CalledTool(item["type"], item.get("name", ""), item.get("namespace"))
        for number, item in enumerate(calls)
    }
    output = ResponseOutput(body["output"], called)
    num_calls = 0
    for item, pieces in zip(body["output"], cuts, strict=True):
        if item["type"] in CALLS:
            yield from output.take([CallStart(num_calls, f"{num_calls}")], [])
            text = json.dumps(item["arguments"]) if item["type"] == SEARCH else item[ARGUMENTS[item["type"]]]
            start = 0
            for size, _ in [(len(text), 0)] if item["type"] == SEARCH else pieces:
                yield from output.take([CallArguments(num_calls, text[start : start + size])], [])
                start += size
            num_calls += 1
        else:
            yield from _text_events(output, item, pieces)
    yield from output.finish(body["status"] == "completed")
    kind = "incomplete" if body["status"] == "cancelled" else body["status"]
    yield {"type": f"response.{kind}", "response": body}


def _text_events(output: ResponseOutput, item: WireEvent, pieces: list[tuple[int, int]]) -> Iterator[WireEvent]:
    part = item["content"][0]
    logprobs = part.get("logprobs") or []
    start = first = 0
    for size, num_logprobs in pieces:
        text = part["text"][start : start + size]
        piece = Content(text) if item["type"] == "message" else Reasoning(text)
        yield from output.take([piece], logprobs[first : first + num_logprobs])
        start, first = start + size, first + num_logprobs
