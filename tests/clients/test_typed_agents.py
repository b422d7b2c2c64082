"""Agents with tools and a typed result: a call in a form that the template does not write, and then the result."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.architectures import registered
from support.engine.scripted_folder import ScriptedClient, write_scripted
from support.fetching.client_environments import environment_python
from support.server.http_server import TOOL_TEMPLATE, running_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAMS = Path(__file__).parent / "programs"
RESULT = '{"name": "Ann", "age": 30}'
CALLS = {
    "plain": '{"name": "age_of", "arguments": {"person": "Ann"}}',
    "fenced": '```json\n{"name": "age_of", "arguments": {"person": "Ann"}}\n```',
}


@pytest.mark.parametrize(("program", "form"), [("typed_openai_agents", "plain"), ("typed_pydantic_ai", "fenced")])
def test_a_call_and_a_typed_result(program: str, form: str, tmp_path: Path) -> None:
    """Tagged calls are in the tests of the server, and every form in every API."""
    script = write_scripted(tmp_path / "agent", TOOL_TEMPLATE)
    config = ServerConfig(models=(ModelSpec.of(str(script.folder)),), offline=True)
    with registered(), running_server(config, {"kv_bytes": 16 << 20}, ScriptedClient) as server:
        variables = {"CLIENT_HOST": server.url, "CLIENT_KEY": "unused", "CLIENT_CHAT_MODEL": "agent"}
        variables |= {"CLIENT_EMBEDDING_MODEL": "", "PYTHONPATH": "", "NO_PROXY": "127.0.0.1"}
        command = [str(environment_python("current")), str(PROGRAMS / f"{program}.py")]
        script.write(*[CALLS[form], RESULT] * 4)
        ran = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
