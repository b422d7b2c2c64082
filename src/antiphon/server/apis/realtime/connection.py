"""`RealtimeConnection`: one WebSocket, translating between its messages and a voice session."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from antiphon.audio.samples import Floats
from antiphon.runtime.voice import events
from antiphon.runtime.voice.items import FunctionOutput, Item, answers_call, new_id
from antiphon.runtime.voice.request import ResponseRequest
from antiphon.runtime.voice.session import MAX_RESPONSES, VoiceSession
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.server.apis.realtime import client_events
from antiphon.server.apis.realtime.audio_format import AudioFormat, RealtimeSoundInput
from antiphon.server.apis.realtime.client_events import ClientEvent, EventRejectedError, parse
from antiphon.server.apis.realtime.input_budget import InputBudget
from antiphon.server.apis.realtime.model_names import with_served_names
from antiphon.server.apis.realtime.rate_limits import rate_limits
from antiphon.server.apis.realtime.server_events import ServerEvents
from antiphon.server.apis.realtime.session_config import SessionConfig, response_params
from antiphon.server.apis.realtime.settings_check import SettingsCheck
from antiphon.server.apis.realtime.shared_input import SharedInput
from antiphon.server.apis.realtime.wire_errors import WireError, error_event, event_id
from antiphon.server.apis.realtime.wire_items import REFERENCE, item_from, size_of
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import INVALID, SERVER, ApiError
from antiphon.server.web.http.inbox import WebSocketInbox

#: Minimum characters of a message that is parsed in a thread.
LARGE_CHARACTERS = 1 << 16
#: Sound up to SHORT_SECONDS is converted in the event loop; longer sound in a thread, CHUNK_SECONDS at a time.
SHORT_SECONDS = 0.25
CHUNK_SECONDS = 1.0
#: Maximum items of one conversation, and maximum bytes that they hold.
MAX_ITEMS = 4096
MAX_ITEM_BYTES = 64 << 20
#: Maximum bytes of waiting messages: minutes of PCM, for instance while an update loads a model.
MAX_WAITING_BYTES = 32 << 20
SERVICE_RESTART, ABNORMAL_CLOSURE = 1012, 1006


@dataclass(frozen=True)
class _Format:
    """Sound format that one response requested."""

    settings: VoiceSettings
    format: AudioFormat


class RealtimeConnection:
    """Connection of one client. The session is closed when `run` ends, however it ends."""

    def __init__(
        self,
        websocket: WebSocket,
        config: SessionConfig,
        session: VoiceSession,
        serving: Serving,
        context: RequestContext,
        check: SettingsCheck,
        shared: SharedInput,
    ) -> None:
        self._websocket = websocket
        self._inbox = WebSocketInbox(MAX_WAITING_BYTES)
        #: Session after all updates, and the session after each update that is not confirmed yet.
        self._config = config
        self._coming: deque[SessionConfig] = deque()
        self._shown = config
        self._session = session
        self._serving = serving
        self._check = check
        self._idle_seconds = serving.config.limits.sessions.idle_seconds
        self._last_sent = time.monotonic()
        self._input = RealtimeSoundInput(config.input_format)
        self._budget = InputBudget(waiting=lambda: session.waiting_seconds)
        self._shared = shared
        self._formats: deque[_Format] = deque(maxlen=MAX_RESPONSES + 1)
        self._events = ServerEvents(
            new_id("conv"), self._show_next, self._take_format, lambda: rate_limits(serving, context)
        )
        self._is_draining = asyncio.Event()
        self._changed = asyncio.Event()

    # -- lifetime -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the client until it leaves. Raises `ApiError` if it sends or reads nothing for too long.

        Raises `WebSocketDisconnect` if the client leaves while the server sends.
        """
        await self._send({"type": "session.created", "event_id": event_id(), "session": self._config.wire()})
        self._shared.open(self._budget)
        self._session.start()
        works = (self._read(), self._obey(), self._write(), self._drain(), self._watch())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._shared.close(self._budget)
            self._session.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._session.aclose()

    def drain(self) -> None:
        """Announce the shutdown to the client, and close when no response is in progress."""
        self._is_draining.set()

    async def _drain(self) -> None:
        await self._is_draining.wait()
        message = "the server is shutting down; the session ends after the response in progress"
        await self._send(error_event(message, "shutting_down", SERVER))
        while self._events.num_responses:
            self._changed.clear()
            await self._changed.wait()
        await self._websocket.close(SERVICE_RESTART, "shutting_down")

    async def _watch(self) -> None:
        await self._session.overflowed()
        message = "the client did not read events for so long that they were dropped"
        raise ApiError(408, message, code="client_too_slow")

    async def _write(self) -> None:
        async for event in self._session:
            for made in self._events.of(event):
                await self._send(made)
            self._note(event)

    def _note(self, event: events.SessionEvent) -> None:
        if isinstance(event, events.ResponseDone):
            self._changed.set()
            self._report(event.response)
        elif isinstance(event, events.BufferCommitted | events.BufferCleared):
            self._budget.taken()

    def _report(self, response: events.ResponseState) -> None:
        self._serving.metrics.voice.response(str(response.status), response.waterfall)
        if self._serving.tracing is not None:
            self._serving.tracing.turn(response)

    async def _send(self, event: Mapping[str, Any]) -> None:
        if self._websocket.application_state is not WebSocketState.CONNECTED:  # another task noticed the disconnect
            raise WebSocketDisconnect(ABNORMAL_CLOSURE)
        self._last_sent = time.monotonic()
        await self._websocket.send_text(orjson.dumps(event).decode())

    # -- client messages ----------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Queue messages even while one is carried out, so that pings are answered and a disconnect is noticed."""
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                message = await self._receive()
                text = message.get("text")
                text = message["bytes"] if text is None else text
                await self._inbox.put(text, message.get("release"), message.get("handled"))
                del message, text  # otherwise a large message stays in memory until the next one

    async def _obey(self) -> None:
        """Carry out messages. A rejected one is answered with an error, and the session continues."""
        async for message in self._inbox:
            tag: str | None = None
            try:
                is_large = len(message) >= LARGE_CHARACTERS
                event, tag = await self._shared.parsed(partial(parse, message)) if is_large else parse(message)
                del message  # free its memory while the event is carried out
                await self._command(event, tag)
            except EventRejectedError as rejected:
                await self._reject(rejected.cause, rejected.event_id)
            except WireError as error:
                await self._reject(error, tag)

    async def _receive(self) -> Message:
        while True:
            try:
                async with asyncio.timeout(self._idle_seconds):
                    message = await self._websocket.receive()
            except TimeoutError:
                if self._inbox.is_empty and time.monotonic() - self._last_sent >= self._idle_seconds:
                    cause = f"nothing has happened in this session for {self._idle_seconds:g} s"
                    raise ApiError(408, cause, code="session_idle") from None
                continue
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            return message

    async def _reject(self, error: WireError, cause: str | None) -> None:
        await self._send(error_event(error.message, error.code, error.kind, error.param, cause))

    async def _command(self, event: ClientEvent, tag: str | None) -> None:
        session = self._session
        match event:
            case client_events.AppendEvent():
                await self._append(event.data)
            case client_events.SessionUpdateEvent():
                await self._update(event.session, tag)
            case client_events.CommitEvent():
                session.push(self._input.flush())
                session.commit(tag)
            case client_events.ClearEvent():
                self._input.flush()
                session.clear(tag)
            case client_events.CreateItemEvent():
                item = await self._shared.parsed(partial(item_from, event.item, self._config.input_format))
                self._check_room(item)
                session.add_item(item, event.previous_item_id, tag)
            case client_events.DeleteItemEvent():
                session.delete_item(event.item_id, tag)
            case client_events.RetrieveItemEvent():
                session.retrieve_item(event.item_id, tag)
            case client_events.TruncateItemEvent():
                session.truncate(event.item_id, event.content_index, event.audio_end_ms, tag)
            case client_events.CreateResponseEvent():
                await self._respond(event.response, tag)
            case client_events.CancelResponseEvent():
                session.cancel(event.response_id, tag)
            case client_events.ClearOutputEvent():
                message = (
                    "output_audio_buffer.clear is for WebRTC: over a WebSocket, stop playing, and send "
                    "response.cancel and conversation.item.truncate"
                )
                raise WireError(message, "type", "unsupported_event")

    async def _append(self, data: bytes) -> None:
        """Push sound; if longer than SHORT_SECONDS, in a thread and in chunks, so that sessions take turns."""
        format = self._config.input_format
        await self._shared.reserve(self._budget, format.seconds(len(data)), is_kept=self._config.is_manual)
        self._inbox.release()  # from here on the sound is counted instead of the message
        if len(data) <= format.num_bytes(SHORT_SECONDS):
            self._session.push(self._input.push(data))
            return
        size = format.num_bytes(CHUNK_SECONDS)
        for start in range(0, len(data), size):
            samples = await self._shared.converted(partial(self._converted, data[start : start + size]))
            self._session.push_cleaned(samples)

    def _converted(self, data: bytes) -> Floats:
        """Convert the client's next sound to the session's rate, and remove the server's own voice from it. Blocks."""
        return self._session.cleaned(self._input.push(data))

    async def _update(self, given: Mapping[str, Any], tag: str | None) -> None:
        config = self._config.updated(given)
        await self._check.update(self._config, config)
        if config.input_format is not self._config.input_format:
            self._session.push(self._input.flush())
            self._input = RealtimeSoundInput(config.input_format)
        self._config = config
        self._coming.append(config)
        self._session.configure(with_served_names(self._serving.models, config.settings()), tag)

    def _show_next(self) -> dict[str, Any]:
        """Return the session after the update that was confirmed last."""
        if self._coming:
            self._shown = self._coming.popleft()
        return self._shown.wire()

    def _check_room(self, item: Item) -> None:
        items = self._session.items
        if len(items) >= MAX_ITEMS:
            raise WireError(f"the conversation has {len(items):,} items; at most {MAX_ITEMS:,} are allowed", "item")
        held = sum(map(size_of, items)) + size_of(item)
        if held > MAX_ITEM_BYTES:
            message = f"the items of the conversation would take {held:,} bytes; at most {MAX_ITEM_BYTES:,} are allowed"
            raise WireError(message, "item")

    async def _respond(self, given: Mapping[str, Any] | None, tag: str | None) -> None:
        if self._config.is_transcription:
            raise WireError("a transcription session has no responses", "type", "unsupported_event")
        params = response_params(given)
        settings = self._config.response_settings(params)
        await self._check.voice(self._config.settings(), settings, "response")
        output = params.audio.output if params.audio is not None else None
        if output is not None and output.format is not None:
            self._formats.append(_Format(settings, AudioFormat(output.format.type)))
        items = None if params.input is None else await self._shared.parsed(partial(self._inputs, params.input))
        in_conversation = params.conversation != "none"
        self._session.respond(ResponseRequest(settings, items, in_conversation, params.metadata), tag)

    def _inputs(self, given: list[dict[str, Any]]) -> list[Item]:
        """Return the items of a response's own input, resolving references to items of the conversation."""
        made: list[Item] = []
        for index, fields in enumerate(given):
            param = f"response.input.{index}"
            if fields.get("type") != REFERENCE:
                item = item_from(fields, self._config.input_format, param)
                if isinstance(item, FunctionOutput) and not answers_call(item, made):
                    message = f"response.input has no function call {item.call_id!r} before its output"
                    raise WireError(message, f"{param}.call_id", "invalid_tool_call_id")
                made.append(item)
                continue
            found = self._session.item(str(fields.get("id")))
            if found is None:
                raise WireError(f"there is no item {str(fields.get('id'))[:100]!r}", f"{param}.id", "item_not_found")
            made.append(found)
        return made

    def _take_format(self, settings: VoiceSettings) -> AudioFormat:
        """Return the sound format that a beginning response requested, or the session's if it requested none."""
        found = next((own for own in self._formats if own.settings is settings), None)
        if found is None:
            return self._shown.output_format
        self._formats.remove(found)
        return found.format


def last_message(error: ApiError) -> str:
    """Return the `error` event that a client receives before its session is closed."""
    kind = error.kind if error.kind == SERVER else INVALID
    return orjson.dumps(error_event(error.message, error.code, kind)).decode()
