"""What a chat keeps in files: saved conversations and the history of what was typed. And its settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.chat import commands, settings, transcript
from antiphon.cli.chat.history import MAX_CHARACTERS, MAX_ENTRIES, HistoryFile
from antiphon.cli.chat.input import is_open, quoted
from antiphon.cli.chat.state import ChatState
from antiphon.errors import InvalidRequestError

TURN = [{"role": "user", "content": "hëllo\n"}, {"role": "assistant", "content": "hi"}]


def a_chat() -> ChatState:
    return ChatState("be brief", {"temperature": 0.5, "stop": ("END",)}, [dict(message) for message in TURN])


class TestTranscript:
    def test_what_is_saved_is_loaded(self, tmp_path: Path) -> None:
        path = tmp_path / "chat.json"
        assert transcript.save(path, a_chat(), "parrot") is False
        state = ChatState()
        assert transcript.load(path, state) == "parrot"
        assert state == a_chat()
        assert list(tmp_path.iterdir()) == [path]

    def test_an_older_conversation_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "chat.json"
        transcript.save(path, ChatState(), "parrot")
        assert transcript.save(path, a_chat(), "parrot") is True
        assert json.loads(path.read_text())["messages"] == TURN

    @pytest.mark.parametrize("content", ["", "notes", "[]", "{}", '{"format": "other"}', '{"format": "antiphon-chat"}'])
    def test_any_other_file_is_left_alone(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "notes.txt"
        path.write_text(content)
        with pytest.raises(InvalidRequestError, match="exists and is not a saved conversation; choose another name"):
            transcript.save(path, a_chat(), "parrot")
        assert path.read_text() == content

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"version": 2}, "version 2; this release reads version 1"),
            ({"format": "x"}, "is not a saved conversation"),
            ({"messages": None}, "has no list of messages"),
            ({"settings": {"speculate": "medusa"}}, "speculate is 'medusa'; it must be one of: off, ngram"),
            ({"settings": {"speculate": True}}, "speculate is True; it must be text"),
            ({"messages": [{"role": "user"}]}, "message 1 needs a role"),
            ({"messages": [*TURN, {"role": "system", "content": "x"}]}, "message 3 needs a role"),
            ({"messages": ["x"]}, "message 1 needs a role"),
            ({"system": 3}, "the system message is not text"),
            ({"settings": []}, "the settings are not an object"),
            ({"settings": {"temperature": -1}}, "temperature is -1; it must be between 0 and 100"),
            ({"settings": {"temperature": "hot"}}, "temperature is 'hot'; it must be a number"),
            ({"settings": {"stop": "x"}}, "stop is 'x'; it must be a list of texts"),
            ({"settings": {"stop": [3]}}, "it must be a list of texts"),
            ({"settings": {"__class__": 1}}, "there is no setting '__class__'"),
        ],
    )
    def test_a_file_that_makes_no_sense(self, tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
        path = tmp_path / "chat.json"
        transcript.save(path, a_chat(), "parrot")
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        state = a_chat()
        with pytest.raises(InvalidRequestError) as raised:
            transcript.load(path, state)
        assert complaint in str(raised.value) and str(path) in str(raised.value)
        assert state == a_chat()  # nothing is changed by a load that fails

    def test_paths_that_cannot_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequestError, match=r"cannot write .*: No such file or directory"):
            transcript.save(tmp_path / "no" / "chat.json", a_chat(), "parrot")
        with pytest.raises(InvalidRequestError, match="exists and is not a saved conversation"):
            transcript.save(tmp_path, a_chat(), "parrot")
        with pytest.raises(InvalidRequestError, match=r"cannot read .*: Is a directory"):
            transcript.load(tmp_path, a_chat())


class TestHistory:
    def test_it_is_bounded(self, tmp_path: Path) -> None:
        file = HistoryFile(tmp_path / "new" / "history")
        for number in range(2 * MAX_ENTRIES + 1):
            file.append(f"line\n{number}")
        kept = HistoryFile(file.path).load()
        assert kept == [f"line\n{number}" for number in range(MAX_ENTRIES + 1, 2 * MAX_ENTRIES + 1)]
        assert len(file.path.read_text().splitlines()) == MAX_ENTRIES
        assert file.path.stat().st_mode & 0o777 == 0o600
        file.append("x" * (MAX_CHARACTERS + 1))
        assert HistoryFile(file.path).load() == kept

    def test_an_open_file_is_closed_to_others(self, tmp_path: Path) -> None:
        path = tmp_path / "history"
        path.write_text('"old"\n')
        path.chmod(0o644)
        HistoryFile(path).append("new")
        assert path.stat().st_mode & 0o777 == 0o600 and HistoryFile(path).load() == ["old", "new"]

    def test_damage_costs_only_what_is_damaged(self, tmp_path: Path) -> None:
        path = tmp_path / "history"
        path.write_bytes(b'"one"\nnonsense\n\xff\xfe\n3\n"two"\n"cut')
        assert HistoryFile(path).load() == ["one", "two"]

    def test_a_problem_is_remembered(self, tmp_path: Path) -> None:
        file = HistoryFile(tmp_path)
        assert file.load() == [] and file.problem is not None and "Is a directory" in file.problem


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "text", "complaint"),
        [
            ("temperature", "-1", "temperature is -1.0; it must be between 0 and 100"),
            ("temperature", "abc", "temperature is 'abc'; it must be a number"),
            ("top_k", "1.5", "top_k is '1.5'; it must be a whole number"),
            ("top-p", "0", "top_p is 0.0; it must be above 0 and at most 1"),
            ("max_tokens", "0", "max_tokens is 0; it must be 1 or more"),
            ("stats", "yes", "stats is 'yes'; it must be on or off"),
            ("colour", "red", "there is no setting 'colour'; there are: temperature, "),
        ],
    )
    def test_a_senseless_value_changes_nothing(self, name: str, text: str, complaint: str) -> None:
        state = a_chat()
        with pytest.raises(InvalidRequestError) as raised:
            settings.set_value(state, name, text)
        assert complaint in str(raised.value) and state == a_chat()

    def test_a_value_and_back(self) -> None:
        state = ChatState()
        for name, text in [("top-p", "0.5"), ("SEED", "7"), ("stop", "the end"), ("stats", "on"), ("markdown", "off")]:
            settings.set_value(state, name, text)
        assert state.settings == {"top_p": 0.5, "seed": 7, "stop": ("the end",)}
        assert state.shows_stats and not state.renders_markdown
        settings.set_value(state, "seed", "default")
        assert "seed" not in state.settings
        assert "top_p               0.5" in settings.shown(state) and "seed                default" in settings.shown(
            state
        )


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/help", ("help", "")),
        ("/System be  brief ", ("system", "be  brief")),
        ("/system two\nlines", ("system", "two\nlines")),
        ("/nonsense now", ("nonsense", "now")),
        ("/nonsense\nnow", None),
        ("// a comment", None),
        ("/usr/bin/env", None),
        ("/", None),
        ("hello /help", None),
    ],
)
def test_what_is_a_command(text: str, command: tuple[str, str] | None) -> None:
    assert commands.parse(text) == command


@pytest.mark.parametrize(
    ("text", "is_unfinished", "content"),
    [
        ("hello", False, None),
        ('say """x"""', False, None),
        ('"""', True, ""),
        ('"""one', True, "one"),
        ('"""one"""', False, "one"),
        ('"""\none\n  two\n"""', False, "one\n  two"),
        ('"""a """b""" c', True, 'a """b""" c'),
        ('""""""', False, ""),
    ],
)
def test_three_quotes(text: str, is_unfinished: bool, content: str | None) -> None:
    assert (is_open(text), quoted(text)) == (is_unfinished, content)


def test_a_name_that_is_too_long_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="File name too long"):
        transcript.save(tmp_path / ("x" * 300), a_chat(), "parrot")
