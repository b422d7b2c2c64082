"""Packages that talk to such servers, each driven by a program against a real server on real weights.

They run in environments with the locked versions of `environments/NAME.txt`: some packages conflict with each other.
What cannot be installed is a failure. `tests/server/test_other_apis.py` has the clients of Anthropic and Ollama in
`make test-all`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.fetching.client_environments import environment_python
from support.server.http_server import RunningServer, running_server

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]

HERE = Path(__file__).parent
CHAT, EMBEDDING = "smollm2-135m", "all-minilm-l6-v2"
KEY = "a-key-for-clients"

#: Programs by the environment that they run in.
PROGRAMS = {
    "use_anthropic": "current",
    "use_ollama": "current",
    "use_langchain": "current",
    "use_pydantic_ai": "current",
    "use_openai_agents": "current",
    "use_llm": "current",
    "use_litellm": "older_openai",
    "use_instructor": "older_openai",
}


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    for name in (CHAT, EMBEDDING):
        model_path(name)
    config = ServerConfig(models=(ModelSpec.of(CHAT), ModelSpec.of(EMBEDDING)), keys=KeyRing([KEY]), offline=True)
    with running_server(config, {"kv_bytes": 64 << 20}) as running:
        yield running


@pytest.mark.parametrize("program", PROGRAMS)
def test_package(program: str, server: RunningServer) -> None:
    variables = {
        "CLIENT_HOST": server.url,
        "CLIENT_KEY": KEY,
        "CLIENT_CHAT_MODEL": CHAT,
        "CLIENT_EMBEDDING_MODEL": EMBEDDING,
        "PYTHONPATH": "",
        "NO_PROXY": "127.0.0.1",
    }
    python = environment_python(PROGRAMS[program])
    command = [str(python), str(HERE / "programs" / f"{program}.py")]
    ran = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
