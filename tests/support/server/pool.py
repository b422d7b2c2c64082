"""`ServerPool`: running servers shared by the tests of a process, keyed by their configuration.

A test leases a server. A server that runs with the same configuration and engine options is reused; otherwise a new
server starts. At the end of its last lease, a server must become idle, which is asserted. Then all data stored by
clients is removed, and exactly the models loaded at its start are loaded again. So each test finds a server as it was
at its start, except for counters, ids and the contents of the prefix cache. A server whose engine has died is closed.
Tests that need a server of their own, for instance because they set environment variables for it, use `running_server`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from antiphon.runtime.process.client import EngineState
from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.server.apis.openai.audio.background import BackgroundTranscriptions
from antiphon.server.apis.responses.store import ResponseStore
from antiphon.server.generation.chat.spoken_reply_store import SpokenReplyStore
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.stored.batches.queue import BatchQueue
from antiphon.server.stored.batches.store import BatchStore
from antiphon.server.stored.chats import ChatStore
from antiphon.server.stored.conversations import ConversationStore
from antiphon.server.stored.files.store import FileStore
from antiphon.server.web.access.keys import KeyRing
from support.server.http_server import RunningServer, running_server
from support.waiting import wait_until

#: Maximum running servers without a lease; each takes some 100 MB.
MAX_IDLE = 6
#: Attributes of a model that administrators and requests change.
MODEL_FIELDS = ("reference", "keep_alive", "is_pinned", "device", "is_configured", "is_companion", "state")


class ServerPool:
    """Pool of running servers, for use from a single thread."""

    def __init__(self) -> None:
        self._servers: dict[Hashable, _PooledServer] = {}  # least recently used first

    @contextmanager
    def lease(self, config: ServerConfig, options: Mapping[str, Any]) -> Iterator[RunningServer]:
        """Yield a server with this configuration over an engine with these options."""
        key = (_hashable(config), _hashable(options))
        server = self._servers.pop(key, None) or _PooledServer(config, options)
        self._servers[key] = server
        server.num_leases += 1
        try:
            yield server.running
        finally:
            server.num_leases -= 1
            if not server.num_leases and not server.is_reset():
                del self._servers[key]
                server.close()
            self._close_idle(MAX_IDLE)

    def _close_idle(self, max_idle: int) -> None:
        idle = [key for key, server in self._servers.items() if not server.num_leases]
        for key in idle[: max(0, len(idle) - max_idle)]:
            self._servers.pop(key).close()

    def close(self) -> None:
        self._close_idle(0)


class _PooledServer:
    def __init__(self, config: ServerConfig, options: Mapping[str, Any]) -> None:
        self.num_leases = 0
        self._stack = ExitStack()
        self.running = self._stack.enter_context(running_server(config, dict(options)))
        self._engine = self.running.serving.client.pid
        self._models = self._described()

    def close(self) -> None:
        self._stack.close()

    def _described(self) -> dict[str, tuple[Any, ...]]:
        models = list(self.running.serving.models.residency.models.values())
        return {model.name: tuple(getattr(model, name) for name in MODEL_FIELDS) for model in models}

    def is_reset(self) -> bool:
        """Restore the server's initial state; return False if that is impossible because its engine has died."""
        serving = self.running.serving
        client = serving.client
        if client.state is not EngineState.READY or client.pid != self._engine:
            return False
        asyncio.run_coroutine_threadsafe(self._empty(), self.running.loop).result(60)
        wait_until(lambda: not len(serving.requests), "all requests to end", seen=lambda: list(serving.requests))
        self.running.wait_until_idle()
        serving.is_draining = False
        asyncio.run_coroutine_threadsafe(self._restore_models(), self.running.loop).result(60)
        return client.pid == self._engine and self._described() == self._models

    async def _empty(self) -> None:
        """Remove data stored by clients, and end batches."""
        serving, state = self.running.serving, self.running.app.state
        limits = serving.config.limits
        bounds = (limits.stored_responses, limits.stored_bytes)
        state.spoken_replies = SpokenReplyStore()
        state.responses = ResponseStore(*bounds)
        state.conversations = ConversationStore(*bounds)
        state.stored_chats = ChatStore(*bounds)
        await state.transcriptions.close()
        state.transcriptions = BackgroundTranscriptions(self.running.app, limits)
        if state.files is None:
            return
        await state.batches.close()
        folder = state.files.folder
        for kept in (folder.files, folder.batches):
            shutil.rmtree(kept)
            kept.mkdir(0o700)
        state.files, store = FileStore(folder, limits), BatchStore(folder)
        state.batches = BatchQueue(self.running.app, serving, state.files, store)
        state.batches.start()

    async def _restore_models(self) -> None:
        residency = self.running.serving.models.residency
        for model in [*residency.models.values()]:
            await self._restore(model)
        for name in [name for name in residency.models if name not in self._models]:
            del residency.models[name]

    async def _restore(self, model: Resident) -> None:
        residency = self.running.serving.models.residency
        known = self._models.get(model.name)
        if known is not None:
            for name, value in zip(MODEL_FIELDS[:-1], known[:-1], strict=True):
                setattr(model, name, value)
        is_wanted = known is not None and known[-1] is ModelState.READY
        if model.loading is not None:
            await asyncio.wait([model.loading])
        if model.state is ModelState.READY and not is_wanted:
            await residency.unload(model)
        elif is_wanted:
            residency._stop_timer(model)
            await residency.load(model)


def _hashable(value: Any) -> Hashable:
    """Convert a configuration to a hashable value, equal for equal configurations."""
    if isinstance(value, KeyRing):
        return tuple(value._hashes)
    if dataclasses.is_dataclass(value):
        return tuple(_hashable(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, Mapping):
        return tuple(sorted((name, _hashable(item)) for name, item in value.items()))
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
