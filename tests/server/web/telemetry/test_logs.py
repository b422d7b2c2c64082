"""Log lines: one JSON object each for collectors, readable lines on a terminal."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from antiphon.server.web.telemetry.logs import JsonLines, TextLines, log, log_failure, set_up_logs


class Stream(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def written(monkeypatch: pytest.MonkeyPatch, format_: str, is_terminal: bool) -> str:
    stream = Stream(is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    set_up_logs(True, format_)
    log("request", request_id="abc", method="POST", route="/v1/embeddings", status=200, seconds=0.0312, model="a b")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("format_", "is_terminal", "is_json"),
    [("auto", True, False), ("auto", False, True), ("json", True, True), ("text", False, False)],
)
def test_the_format(monkeypatch: pytest.MonkeyPatch, format_: str, is_terminal: bool, is_json: bool) -> None:
    line = written(monkeypatch, format_, is_terminal)
    if is_json:
        assert json.loads(line)["route"] == "/v1/embeddings"
    else:
        assert line[8:] == ' POST /v1/embeddings 200 0.03s model="a b" request_id=abc\n'


def test_errors_say_where_they_came_from_and_not_what_they_said(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("what a client wrote")
    except ValueError as error:
        log_failure(error, request_id="abc")
    record = caplog.records[-1]
    first, *frames = TextLines().format(record).splitlines()
    assert first[8:] == " ERROR internal error error=ValueError request_id=abc"
    assert len(frames) == 1 and frames[0].startswith("    ") and "test_logs.py" in frames[0]
    assert "client" not in first and "client" not in JsonLines().format(record)


def test_a_value_cannot_begin_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    log("model failed to load", logging.ERROR, cause="one\ntwo", model="")
    assert TextLines().format(caplog.records[-1])[8:] == ' ERROR model failed to load cause="one\\ntwo" model=""'
