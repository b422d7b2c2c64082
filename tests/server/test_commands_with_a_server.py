"""The commands give the same with a server as with a model in their own process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.programs.command_line import Invoke, invoker
from support.server.http_server import RunningServer


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    return invoker(monkeypatch, capfdbinary)


@pytest.mark.parametrize(
    "options",
    [
        ["--temperature", "0"],
        ["--temperature", "0", "--raw"],
        ["--temperature", "0", "--system", "be brief"],
        ["--temperature", "0", "--stop", "t"],
        ["--temperature", "2", "--top-k", "9", "--seed", "5"],
        ["--temperature", "2", "--seed", "5", "--n", "3"],
        ["--temperature", "0", "--choice", "yes", "--choice", "no"],
        ["--temperature", "0", "--regex", "[0-9]{4}"],
        ["--temperature", "0", "--json-schema", '{"enum": ["a", "b"]}'],
    ],
    ids=" ".join,
)
def test_run(options: list[str], server: RunningServer, chat_folder: Path, invoke: Invoke) -> None:
    here = invoke("run", str(chat_folder), "hello", *options, "--max-tokens", "12")
    there = invoke("run", "tiny-chat", "hello", *options, "--max-tokens", "12", "--base-url", server.url)
    assert (there[0], there[1]) == (0, here[1]) and here[1].strip()
    reported = here[2].splitlines()[-1 if "--n" not in options else -3]
    assert there[2].split(" prompt token")[0] == reported.split(" prompt token")[0]


def test_chat(server: RunningServer, chat_folder: Path, invoke: Invoke) -> None:
    options, lines = ["--temperature", "0", "--max-tokens", "6"], b"hello\nagain\n/exit\n"
    here = invoke("chat", str(chat_folder), *options, stdin=lines)
    assert invoke("chat", "tiny-chat", *options, "--base-url", server.url + "/v1", stdin=lines)[:2] == here[:2]
    assert len(here[1].splitlines()) >= 2


def test_embed(server: RunningServer, encoder_folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("one\ntwo words\n")
    here = invoke("embed", str(encoder_folder), str(tmp_path / "texts"))[1]
    there = invoke("embed", encoder_folder.name, str(tmp_path / "texts"), "--base-url", server.url)[1]
    vectors = [np.array([json.loads(line) for line in text.splitlines()]) for text in (here, there)]
    assert vectors[0].shape[0] == 2
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-6)


def test_an_unknown_model_has_the_servers_own_words(server: RunningServer, invoke: Invoke) -> None:
    code, out, err = invoke("run", "tiny-chta", "hello", "--base-url", server.url)
    assert (code, out) == (1, "") and err.startswith(f"antiphon: {server.url}: there is no model 'tiny-chta'")
    code, out, err = invoke("embed", "tiny-chat", "-", "--base-url", server.url, stdin=b"a")
    assert (code, out) == (1, "") and "tiny-chat" in err
