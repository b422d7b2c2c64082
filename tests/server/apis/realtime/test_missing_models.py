"""A server without models of sound, and without a network: a session says what is missing, and goes on in text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import RunningServer, running_server
from support.server.realtime_server import Session

pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def server(chat_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTIPHON_HOME", str(tmp_path_factory.mktemp("home")))
        config = ServerConfig(models=(ModelSpec.of(str(chat_folder)),), offline=True)
        with running_server(config, {"kv_bytes": 16 << 20}) as running:
            yield running


async def test_semantic_turn_detection_without_its_model(server: RunningServer) -> None:
    async with connect(server.url.replace("http", "ws") + "/v1/realtime", max_size=None, open_timeout=60) as socket:
        session = Session(socket)
        await session.until("session.created")
        semantic = {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}
        await session.send("session.update", session=semantic, event_id="mine")
        while (error := (await session.until("error"))["error"])["event_id"] is None:
            assert "antiphon pull" in error["message"]  # there is no model that hears, either
        assert "antiphon pull smart-turn" in error["message"] and "semantic_vad" in error["message"]
        assert (error["code"], error["param"]) == ("model_load_failed", "session.audio.input.turn_detection")
        wanted = {"type": "realtime", "output_modalities": ["text"], "max_output_tokens": 4}
        await session.send("session.update", session=wanted)
        await session.until("session.updated")
        content = [{"type": "input_text", "text": "Hi"}]
        await session.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await session.send("response.create")
        assert (await session.until("response.done"))["response"]["status"] in ("completed", "incomplete")
        session.order.finish()
