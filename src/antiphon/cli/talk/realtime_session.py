"""`RealtimeSession`: a voice session in a running server, over `/v1/realtime`."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from antiphon import __version__
from antiphon.audio.pcm import to_floats, to_s16
from antiphon.audio.resample import Resampler
from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import CONNECT_SECONDS, ServerError, advice, connection_error, error_message
from antiphon.runtime.voice import events
from antiphon.runtime.voice.events import PartPlace, ResponseState, SessionEvent
from antiphon.runtime.voice.items import Message, Role, SoundPart
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.runtime.voice.waterfall import Waterfall

PATH = "/v1/realtime"
WIRE_RATE = 24_000
WATERFALL = "antiphon.waterfall"


class RealtimeSession:
    """Voice session on a server.

    Commands return at once; iteration yields events until the server closes the session.
    """

    def __init__(self, server: ServerAddress, connection: ClientConnection) -> None:
        self._server = server
        self._connection = connection
        self._resampler = Resampler(SPEECH_RATE, WIRE_RATE)
        self._commands: asyncio.Queue[str] = asyncio.Queue()
        self._sender = asyncio.create_task(self._send())

    @classmethod
    async def open(cls, server: ServerAddress, model: str, session: Mapping[str, Any]) -> RealtimeSession:
        """Open a session and wait until the server has accepted its settings; raise `ServerError` otherwise."""
        opened = cls(server, await _connected(server, model))
        try:
            opened._put("session.update", session=dict(session))
            await opened._until_updated()
        except BaseException:
            await opened.aclose()
            raise
        return opened

    async def aclose(self) -> None:
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)
        await self._connection.close()

    # -- commands -----------------------------------------------------------------------------------------------

    def push(self, samples: Floats) -> None:
        self._append(self._resampler.push(samples))

    def commit(self) -> None:
        self._append(self._resampler.finish())
        self._resampler = Resampler(SPEECH_RATE, WIRE_RATE)
        self._put("input_audio_buffer.commit")

    def respond(self) -> None:
        self._put("response.create")

    def cancel(self) -> None:
        self._put("response.cancel")

    def truncate(self, item_id: str, content_index: int, end_ms: int) -> None:
        self._put("conversation.item.truncate", item_id=item_id, content_index=content_index, audio_end_ms=end_ms)

    def _append(self, samples: Floats) -> None:
        if len(samples):
            self._put("input_audio_buffer.append", audio=base64.b64encode(to_s16(samples).tobytes()).decode())

    def _put(self, kind: str, **fields: Any) -> None:
        self._commands.put_nowait(json.dumps({"type": kind, **fields}))

    async def _send(self) -> None:
        try:
            while True:
                await self._connection.send(await self._commands.get())
        except ConnectionClosed:
            pass  # the reader reports it

    # -- events -------------------------------------------------------------------------------------------------

    async def _until_updated(self) -> None:
        while True:
            event = await self._read()
            if event is None:
                raise ServerError(f"{self._server.url} closed the session before it began; see the server's log")
            if event["type"] == "error":
                raise ServerError(f"{self._server.url}: {_text(event.get('error'), 'message')}")
            if event["type"] == "session.updated":
                return

    async def _read(self) -> dict[str, Any] | None:
        """Return the next wire event, or None at the end."""
        try:
            data = await self._connection.recv()
        except ConnectionClosed as closed:
            if closed.rcvd is not None and closed.rcvd.code not in (1000, 1001):
                reason = closed.rcvd.reason or f"code {closed.rcvd.code}"
                raise ServerError(f"{self._server.url} closed the session: {reason}") from closed
            if closed.rcvd is None:
                raise ServerError(f"the connection to {self._server.url} broke off; try again") from closed
            return None
        event = json.loads(data)
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise ServerError(f"{self._server.url} sent an event without a type: it is not a Realtime API")
        return event

    def __aiter__(self) -> AsyncIterator[SessionEvent]:
        return self._events()

    async def _events(self) -> AsyncIterator[SessionEvent]:
        while (wire := await self._read()) is not None:
            event = session_event(wire)
            if event is not None:
                yield event


async def _connected(server: ServerAddress, model: str) -> ClientConnection:
    scheme = "wss" if server.scheme == "https" else "ws"
    url = f"{scheme}://{server.authority}{server.prefix}{PATH}?model={quote(model, safe='')}"
    headers = {} if server.api_key is None else {"Authorization": f"Bearer {server.api_key}"}
    try:
        return await connect(
            url,
            additional_headers=headers,
            user_agent_header=f"antiphon/{__version__}",
            compression=None,
            max_size=None,
            open_timeout=CONNECT_SECONDS,
            proxy=None,
        )
    except InvalidStatus as error:
        status, told = error.response.status_code, error_message(bytes(error.response.body or b""))
        if told is None and status in (404, 405):
            raise ServerError(f"{server.url} has no {PATH} (status {status}): it cannot hold conversations") from error
        told = told or f"status {status}"
        after = error.response.headers.get("Retry-After")
        raise ServerError(f"{server.url}: {told}{advice(status, PATH, after)}", status) from error
    except InvalidHandshake as error:
        raise ServerError(f"{server.url} does not answer as a WebSocket server ({error}); check the address") from error
    except OSError as error:
        raise connection_error(server, error) from error


def session_event(wire: Mapping[str, Any]) -> SessionEvent | None:
    """Convert a wire event to a voice session's event; None for events that a listener does not need."""
    item_id = wire.get("item_id") or ""
    match wire["type"]:
        case "input_audio_buffer.speech_started":
            return events.UserSpeechStarted(item_id, wire["audio_start_ms"])
        case "input_audio_buffer.speech_stopped":
            return events.UserSpeechStopped(item_id, wire["audio_end_ms"])
        case "input_audio_buffer.committed":
            return events.BufferCommitted(item_id, wire.get("previous_item_id"))
        case "conversation.item.input_audio_transcription.delta":
            return events.TranscriptDelta(item_id, wire["content_index"], wire["delta"])
        case "conversation.item.input_audio_transcription.completed":
            return events.TranscriptDone(item_id, wire["content_index"], wire["transcript"], 0.0)
        case "conversation.item.input_audio_transcription.failed":
            return events.TranscriptFailed(item_id, wire["content_index"], _text(wire.get("error"), "message"))
        case "response.created":
            return events.ResponseStarted(_response(wire["response"]))
        case "response.output_audio_transcript.delta":
            return events.SpokenTextDelta(_part(wire), wire["delta"])
        case "response.output_audio.delta":
            samples = to_floats(base64.b64decode(wire["delta"]), "s16le")
            return events.SoundDelta(_part(wire), samples, WIRE_RATE)
        case "response.done":
            return events.ResponseDone(_response(wire["response"]))
        case "error":
            error = wire.get("error")
            is_request = _text(error, "type") == "invalid_request_error"
            return events.SessionError(_text(error, "code"), _text(error, "message"), is_request)
    return None


def _part(wire: Mapping[str, Any]) -> PartPlace:
    return PartPlace(wire["response_id"], wire["item_id"], wire["output_index"], wire["content_index"])


def _response(wire: Mapping[str, Any]) -> ResponseState:
    details = wire.get("status_details") or {}
    failure = details.get("error")
    reason = details.get("reason")
    return ResponseState(
        wire["id"],
        VoiceSettings(),
        status=events.ResponseStatus(wire["status"]),
        reason=events.EndReason(reason) if reason in list(events.EndReason) else None,
        output=tuple(_messages(wire.get("output") or ())),
        error=(_text(failure, "code"), _text(failure, "message")) if failure else None,
        waterfall=_waterfall(wire.get("metadata")),
    )


def _messages(wire: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    """Yield the spoken messages among a response's output."""
    for item in wire:
        if item.get("type") == "message":
            parts = tuple(SoundPart(_text(part, "transcript")) for part in item.get("content") or ())
            yield Message(_text(item, "id"), Role.ASSISTANT, parts)


def _waterfall(metadata: Mapping[str, str] | None) -> Waterfall:
    """Return the marks that an Antiphon server adds to a response; other servers add none."""
    marks = json.loads((metadata or {}).get(WATERFALL, "{}"))
    known = {name: at / 1000 for name, at in marks.items() if name in Waterfall.__dataclass_fields__}
    return Waterfall(**known)


def _text(error: Any, name: str) -> str:
    value = error.get(name) if isinstance(error, Mapping) else None
    return value if isinstance(value, str) else ""
