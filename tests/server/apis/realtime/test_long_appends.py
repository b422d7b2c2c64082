"""Appends that are converted in a thread: their order, and the memory that all sessions share."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from antiphon.server.apis.realtime.client_events import LONG_AUDIO, AppendEvent, EventRejectedError, parse
from antiphon.server.apis.realtime.input_budget import MAX_AHEAD_SECONDS
from antiphon.server.apis.realtime.shared_input import BYTES_PER_SECOND, SharedInput
from support.server.realtime_server import FakeRealtime, fake_realtime
from support.waiting import wait_until_async

pytestmark = pytest.mark.asyncio
MANUAL = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}


@pytest.fixture
def realtime() -> Iterator[FakeRealtime]:
    """One session may hold as much sound as is allowed; the rest is reserved."""
    memory = round(2 * (MAX_AHEAD_SECONDS + 10) * BYTES_PER_SECOND)
    with fake_realtime(input=SharedInput(64, memory, patience_seconds=0.05)) as server:
        yield server


def silence(seconds: float) -> str:
    return base64.b64encode(bytes(round(24_000 * seconds) * 2)).decode()


async def test_commits_and_clears_are_after_the_sound_before_them(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        await session.send("session.update", session=MANUAL)
        for seconds in (3.3, 0.2, 2.1, 0.25):
            await session.send("input_audio_buffer.append", audio=silence(seconds))
        await session.send("input_audio_buffer.commit")
        await session.send("input_audio_buffer.append", audio=silence(4.0))
        await session.send("input_audio_buffer.clear")
        await session.send("input_audio_buffer.append", audio=silence(1.5))
        await session.send("input_audio_buffer.commit")
        await session.until("input_audio_buffer.cleared")
        await session.until("input_audio_buffer.committed")
        committed = ["committed", "cleared", "committed"]
        assert [
            kind.split(".")[1] for kind in session.order.kinds if kind.startswith("input_audio_buffer")
        ] == committed
        [hearing] = realtime.voice.hearings
        assert np.allclose(hearing.turn_seconds, [5.85, 1.5], atol=0.02)


async def test_a_session_waits_for_the_memory_that_others_hold(realtime: FakeRealtime) -> None:
    async with realtime.session() as second:
        async with realtime.session() as first:
            await first.send("input_audio_buffer.append", audio=silence(MAX_AHEAD_SECONDS))
            await first.send("session.update", session=MANUAL)
            await first.until("session.updated")
            await second.send("input_audio_buffer.append", audio=silence(MAX_AHEAD_SECONDS), event_id="mine")
            error = (await second.until("error"))["error"]
            assert (error["code"], error["event_id"]) == ("memory_busy", "mine") and "MiB of sound" in error["message"]
            await second.turn()  # short sound has memory of its own
            await second.until("response.done")
        requests = realtime.serving.requests
        await wait_until_async(lambda: len(requests) == 1, "the first session to end", seen=lambda: len(requests))
        await second.send("input_audio_buffer.append", audio=silence(MAX_AHEAD_SECONDS - 5))
        await second.send("session.update", session=MANUAL)
        await second.until("session.updated")
        assert "error" not in second.order.kinds[second.order.kinds.index("response.done") :]


# -- reading of long appends ------------------------------------------------------------------------------------------

SOUND = np.random.default_rng(0).integers(0, 256, LONG_AUDIO).astype(np.uint8).tobytes()
LONG = base64.b64encode(SOUND).decode()


def append(**fields: Any) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", **fields}


@pytest.mark.parametrize(
    "message",
    [
        json.dumps(append(audio=LONG, event_id="mine")),
        json.dumps(append(event_id="mine", audio=LONG)).encode(),
        json.dumps(append(event_id="mine", other="\u00e9", audio=LONG), ensure_ascii=False),
        json.dumps(append(event_id="mine", audio=LONG), separators=(",", ":"), indent=1),
        json.dumps(append(audio=LONG, event_id="mine")).replace("/", "\\/"),
        json.dumps(append(nested={"audio": "A" * LONG_AUDIO}, audio=LONG, event_id="mine")),
        json.dumps(append(event_id="mine", other="x" * 5000, audio=LONG)),
        json.dumps(append(audio=LONG, event_id="mine")).replace(
            '"audio"', '"audio": "' + "A" * LONG_AUDIO + '", "audio"'
        ),
    ],
    ids=["plain", "bytes", "accents", "lines", "escaped", "nested", "late", "twice"],
)
async def test_a_long_append_is_read_like_any_json(message: str | bytes) -> None:
    assert parse(message) == (AppendEvent(SOUND), "mine")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (json.dumps(append(audio=LONG + "#", event_id="mine")), "invalid_audio"),
        (json.dumps(append(audio=LONG + "\u00e9", event_id="mine"), ensure_ascii=False), "invalid_audio"),
        (json.dumps(append(audio=LONG, event_id="mine"))[:-1], "invalid_json"),
        (json.dumps(append(audio=LONG))[:-2], "invalid_json"),
        (json.dumps({"type": "dance", "audio": LONG, "event_id": "mine"}), "invalid_value"),
    ],
    ids=["sign", "accent", "open object", "open string", "other event"],
)
async def test_a_malformed_long_append_is_rejected(message: str, code: str) -> None:
    with pytest.raises(EventRejectedError) as raised:
        parse(message)
    assert raised.value.cause.code == code
    assert raised.value.event_id == (None if code == "invalid_json" else "mine")
