"""Codex and Claude Code: requests that they sent, with a loop of one tool each.

The bodies in `agents` were captured from `codex exec` 0.169.0 and `claude -p` 2.1.197, pointed at a local server, with
an MCP server that has a tool `forecast`. Ids and the texts of the programs are replaced; fields, tools and schemas are
theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.architectures import registered
from support.engine.scripted_folder import Script, ScriptedClient, write_scripted
from support.server.http_server import TOOL_TEMPLATE, RunningServer, running_server

AGENTS = Path(__file__).parent / "agents"
FORECAST = '<tool_call>\n{"name": "mcp__weather__forecast", "arguments": {"city": "Oslo"}}\n</tool_call>'
ANSWER = "It is 18 degrees."


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Script:
    return write_scripted(tmp_path_factory.mktemp("agents") / "agent", TOOL_TEMPLATE, context=65536)


@pytest.fixture(scope="module")
def server(script: Script) -> Iterator[RunningServer]:
    with registered():
        config = ServerConfig(models=(ModelSpec.of(str(script.folder)),), offline=True)
        with running_server(config, {"kv_bytes": 64 << 20}, ScriptedClient) as running:
            yield running


class Agent:
    """A program that sends one of the captured requests, and then others like it."""

    def __init__(self, name: str, server: RunningServer, script: Script) -> None:
        captured = json.loads((AGENTS / f"{name}.json").read_text(encoding="utf-8"))
        self.url, self.headers = server.url + captured["path"], captured["headers"]
        self.body: dict[str, Any] = captured["body"]
        self.ignored = ""
        self._script = script

    def ask(self, answer: str) -> list[dict[str, Any]]:
        """The events of a request that the model answers so."""
        self._script.write(answer)
        response = httpx.post(self.url, json=self.body, headers=self.headers, timeout=60)
        assert response.status_code == 200, response.text
        self.ignored = response.headers.get("x-antiphon-ignored", "")
        return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]

    def item(self, answer: str) -> dict[str, Any]:
        """The one output item of a response, as Codex reads it."""
        events = self.ask(answer)
        assert events[-1]["type"] == "response.completed" and events[-1]["response"]["usage"]["output_tokens"]
        (item,) = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert events[-1]["response"]["output"] == [item]
        return dict(item)

    def block(self, answer: str) -> tuple[dict[str, Any], str]:
        """The one content block of a message, as Claude Code reads it, and why the message ended."""
        events = self.ask(answer)
        (block,) = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        if block["type"] == "tool_use":
            block["input"] = json.loads("".join(delta["partial_json"] for delta in deltas))
        else:
            block["text"] += "".join(delta["text"] for delta in deltas)
        (reason,) = [event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"]
        assert events[-1]["type"] == "message_stop"
        return block, reason


def test_codex_calls_a_tool_of_a_namespace(server: RunningServer, script: Script) -> None:
    codex = Agent("codex", server, script)
    call = codex.item(FORECAST)
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "mcp__weather", "forecast")
    assert json.loads(call["arguments"]) == {"city": "Oslo"}
    assert codex.ignored == "tools[web_search]"
    output = [{"type": "input_text", "text": "18 degrees"}]
    codex.body["input"] += [call, {"type": "function_call_output", "call_id": call["call_id"], "output": output}]
    message = codex.item(ANSWER)
    assert message["type"] == "message" and message["content"][0]["text"] == ANSWER


def test_codex_calls_a_plain_function(server: RunningServer, script: Script) -> None:
    call = Agent("codex", server, script).item(
        '<tool_call>\n{"name": "exec_command", "arguments": {"cmd": "ls"}}\n</tool_call>'
    )
    assert (call["type"], call["name"], "namespace" in call) == ("function_call", "exec_command", False)


def test_codex_writes_a_patch(server: RunningServer, script: Script) -> None:
    """A custom tool whose input has a grammar, after a search for tools that is in the history."""
    codex = Agent("codex_known_model", server, script)
    events = codex.ask("```apply_patch\nbegin\n+hello\nend\n```")
    (call,) = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "apply_patch", "begin\n+hello\nend")
    deltas = [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == call["input"]
    result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "Done."}
    codex.body["input"] += [call, result]
    assert codex.item(ANSWER)["content"][0]["text"] == ANSWER


def test_codex_searches_for_tools_and_calls_what_it_found(server: RunningServer, script: Script) -> None:
    codex = Agent("codex_known_model", server, script)
    found = next(item for item in codex.body["input"] if item["type"] == "tool_search_output")
    codex.body["input"] = [item for item in codex.body["input"] if item["type"] == "message"]
    search = codex.item('<tool_call>\n{"name": "tool_search", "arguments": {"query": "weather"}}\n</tool_call>')
    assert (search["type"], search["execution"], search["arguments"]) == (
        "tool_search_call",
        "client",
        {"query": "weather"},
    )
    codex.body["input"] += [search, found | {"call_id": search["call_id"]}]
    call = codex.item(FORECAST)
    assert (call["namespace"], call["name"]) == ("mcp__weather", "forecast")


def test_a_strict_server_names_the_tool_that_it_lacks(script: Script) -> None:
    with registered():
        config = ServerConfig(models=(ModelSpec.of(str(script.folder)),), offline=True, is_strict=True)
        with running_server(config, {"kv_bytes": 64 << 20}, ScriptedClient) as strict:
            codex = Agent("codex", strict, script)
            refused = httpx.post(codex.url, json=codex.body, timeout=60)
            assert refused.status_code == 400 and "web_search" in refused.json()["error"]["message"]
            codex.body["tools"].pop()
            assert codex.item(ANSWER)["content"][0]["text"] == ANSWER


def test_claude_code_begins(server: RunningServer, script: Script) -> None:
    """It probes the server, and asks for a title."""
    assert httpx.head(server.url, timeout=60).status_code < 500
    block, reason = Agent("claude_code_title", server, script).block('{"title": "Say hello"}')
    assert (block["text"], reason) == ('{"title": "Say hello"}', "end_turn")


def test_claude_code_runs_a_command(server: RunningServer, script: Script) -> None:
    claude = Agent("claude_code", server, script)
    arguments = {"command": "echo hello", "description": "Say hello"}
    block, reason = claude.block(f"<tool_call>\n{json.dumps({'name': 'Bash', 'arguments': arguments})}\n</tool_call>")
    assert (block["name"], block["input"], reason) == ("Bash", arguments, "tool_use")
    assert claude.ignored == ""
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": "hello", "is_error": False}
    claude.body["messages"] += [
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": [result | {"cache_control": {"type": "ephemeral"}}]},
    ]
    block, reason = claude.block(ANSWER)
    assert (block["text"], reason) == (ANSWER, "end_turn")


def test_claude_code_calls_a_tool_that_it_loaded_later(server: RunningServer, script: Script) -> None:
    claude = Agent("claude_code_deferred", server, script)
    block, _ = claude.block(FORECAST)
    assert (block["name"], block["input"]) == ("mcp__weather__forecast", {"city": "Oslo"})
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": "18 degrees"}]}
    claude.body["messages"] += [{"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]
    assert claude.block(ANSWER)[0]["text"] == ANSWER


def test_claude_code_counts_tokens(server: RunningServer, script: Script) -> None:
    claude = Agent("claude_code_deferred", server, script)
    fields = ("model", "messages", "system", "tools", "thinking", "context_management", "output_config")
    body = {name: claude.body[name] for name in fields}
    counted = httpx.post(
        f"{server.url}/v1/messages/count_tokens?beta=true", json=body, headers=claude.headers, timeout=60
    )
    assert counted.status_code == 200 and counted.json()["input_tokens"] > 1000
