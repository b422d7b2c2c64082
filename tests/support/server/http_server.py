"""Real server over a real engine process, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import torch
import uvicorn
from fastapi import FastAPI
from safetensors.torch import load_file, save_file

from antiphon.runtime.process.engine_process import EngineProcess
from antiphon.server.app import create_app
from antiphon.server.serving.draining_server import server_settings
from antiphon.server.serving.serving import Serving
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.web.http.listener import address, bind
from support.engine.forked_engine import ForkedClient
from support.models.tiny_model import write_bert
from support.waiting import wait_until

#: Admin key of servers that tests manage.
ADMIN_KEY = "an-admins-own-key"
#: Chat template like Qwen's, reduced to messages and tools.
TOOL_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    'Call with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>\n{% endif %}'
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass
class RunningServer:
    url: str
    app: FastAPI
    loop: asyncio.AbstractEventLoop

    @property
    def serving(self) -> Serving:
        serving: Serving = self.app.state.serving
        return serving

    def openai(self, key: str = "unused", **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60, **options)

    def figures(self) -> dict[str, int]:
        """Return the numbers of running requests, waiting requests and owned blocks, summed over all models."""
        values = asyncio.run_coroutine_threadsafe(self.serving.client.figures(), self.loop).result(60)
        models = [value for name, value in values.items() if name not in ("arena", "devices", "process")]
        return {name: sum(model[name] for model in models) for name in ("running", "waiting", "blocks_owned")}

    def metrics(self) -> str:
        """Fetch `/metrics` until it includes the engine's figures, which a busy engine may report too late."""
        pages: list[str] = []

        def has_figures() -> bool:
            pages.append(httpx.get(self.url + "/metrics", timeout=60).text)
            return "antiphon:num_requests_running{" in pages[-1]

        wait_until(has_figures, "the engine's own figures", seen=lambda: pages[-1])
        return pages[-1]

    @contextmanager
    def held_restart(self) -> Iterator[None]:
        """Keep engine processes that start inside the block from becoming ready before the block ends."""
        engine, go_on = self.serving.client, threading.Event()
        prepare = engine._prepare

        async def prepare_later(process: EngineProcess) -> None:
            await asyncio.to_thread(go_on.wait, 120)
            await prepare(process)

        engine._prepare = prepare_later  # type: ignore[method-assign]
        try:
            yield
        finally:
            engine._prepare = prepare  # type: ignore[method-assign]
            go_on.set()

    def wait_until_idle(self) -> None:
        """Wait until the engine has no requests and no request owns a block."""
        wait_until(lambda: not any(self.figures().values()), "an idle engine", seen=self.figures)


@contextmanager
def running_server(
    config: ServerConfig, options: dict[str, Any], client_class: type[ForkedClient] = ForkedClient
) -> Iterator[RunningServer]:
    """Run a server until the block ends; yield it once `/readyz` reports readiness or failure."""
    listener = bind("127.0.0.1", 0)
    made: dict[str, Any] = {}

    async def serve() -> None:
        made["app"] = app = create_app(config, client_class(options, offline=True))
        made["loop"] = asyncio.get_running_loop()
        server = uvicorn.Server(server_settings(app, config.connections, 2))
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        made["server"] = server
        await server.serve([listener])

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        _wait_until_settled(address(listener))
        yield RunningServer(address(listener), made["app"], made["loop"])
    finally:
        made["server"].should_exit = True
        thread.join(60)
        listener.close()
        assert not thread.is_alive()


def _wait_until_settled(url: str) -> None:
    told: dict[str, Any] = {}

    def is_settled() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            told.update(client.get(f"{url}/readyz").json())
        return told.get("status") in ("ready", "failed")

    with httpx.Client(timeout=30) as client:
        wait_until(is_settled, "the server to be ready", seen=lambda: told)


def write_random_bert(folder: Path) -> Path:
    """Write the tiny encoder with random weights, so that different texts have different vectors; return its folder."""
    path = write_bert(folder)
    generator = torch.Generator().manual_seed(0)
    state = load_file(path / "model.safetensors")
    save_file(
        {name: torch.randn(tensor.shape, generator=generator) for name, tensor in state.items()},
        path / "model.safetensors",
    )
    return path
