"""The requests of a body are the same however its bytes arrive, and are those that a JSON parser finds."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from antiphon.server.apis.anthropic.batches.request_splitter import RequestSplitter
from antiphon.server.web.http.errors import ApiError

TEXT = 'brackets ]}[{ and "quotes" \\ and \\" more'
BODY: dict[str, Any] = {
    "requests": [
        {"custom_id": "a", "params": {"text": TEXT, "list": [1, [2, {}], {"b": []}]}},
        {"custom_id": "ä", "params": {}},
        {},
        {"deep": [[[[[[{"x": [{}]}]]]]]]},
    ],
    "note": "a ] in a string [",
}


def split(data: bytes, sizes: list[int]) -> tuple[list[Any], dict[str, Any]]:
    splitter = RequestSplitter(100, 10_000)
    found: list[Any] = []
    start = 0
    for size in sizes:
        found += [json.loads(request) for request in splitter.feed(data[start : start + size])]
        start += size
    found += [json.loads(request) for request in splitter.feed(data[start:])]
    return found, splitter.finish()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_parts_of_any_size(indent: int | None, is_ascii: bool) -> None:
    data = json.dumps(BODY, indent=indent, ensure_ascii=is_ascii).encode()
    wanted = BODY["requests"], {"note": BODY["note"]}
    for size in range(1, 40):
        assert split(data, [size] * (len(data) // size)) == wanted
    generator = random.Random(1)
    for _ in range(50):
        assert split(data, [generator.randrange(60) for _ in range(20)]) == wanted


def test_bytes_that_are_no_body_end_in_an_error() -> None:
    data = json.dumps(BODY).encode()
    generator = random.Random(2)
    num_rejected = 0
    for _ in range(2000):
        offset = generator.randrange(len(data))
        changed = data[:offset] + bytes([generator.randrange(256)]) + data[offset + 1 :]
        try:
            wanted: Any = json.loads(changed)
        except ValueError:
            wanted = None
        try:
            found, others = split(changed, [37] * 5)
        except (ApiError, ValueError):  # a request that is no JSON is found by the one who parses it
            num_rejected += 1
            assert wanted is None or not isinstance(wanted.get("requests"), list) or "requests" not in wanted
            continue
        assert wanted == {"requests": found, **others}
    assert num_rejected > 100


def test_no_more_than_one_request_is_held() -> None:
    splitter = RequestSplitter(10, 1000)
    with pytest.raises(ApiError, match="more than 1,000 bytes"):
        list(splitter.feed(b'{"requests": [{"a": "' + b"x" * 2000))
    splitter = RequestSplitter(10, 1000)
    with pytest.raises(ApiError, match="more than 10 requests"):
        list(splitter.feed(b'{"requests": [' + b"{}," * 11))
