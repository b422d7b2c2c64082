"""Stop strings: what is passed on does not depend on how the stream was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequestError
from antiphon.text.stop import StopStrings

LETTERS = st.text("ab<", max_size=12)
STOPS = st.lists(st.text("ab<", min_size=1, max_size=4), max_size=3)


def run(stops: list[str], parts: list[str]) -> tuple[str, bool, str | None]:
    stream = StopStrings(stops)
    shown = ""
    stopped = False
    for part in parts:
        text, stopped = stream.push(part)
        shown += text
    return shown + stream.flush(), stopped, stream.stopped


def expected(stops: list[str], text: str) -> str:
    """By definition: the text before the stop string that ends first, the longest of those that end there."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))]
    return text


@given(stops=STOPS, parts=st.lists(LETTERS, max_size=6))
def test_cutting_makes_no_difference(stops: list[str], parts: list[str]) -> None:
    text = "".join(parts)
    shown, stopped, stop = run(stops, parts)
    assert shown == expected(stops, text)
    assert run(stops, list(text))[0] == shown
    assert stopped == (stop is not None) or not parts


@given(stops=STOPS, parts=st.lists(LETTERS, max_size=6))
def test_no_more_is_held_back_than_may_become_a_stop(stops: list[str], parts: list[str]) -> None:
    stream = StopStrings(stops)
    shown = seen = ""
    for part in parts:
        text, stopped = stream.push(part)
        shown, seen = shown + text, seen + part
        if stopped:
            break
        held = seen[len(shown) :]
        assert not held or any(stop.startswith(held) for stop in stops)


def test_text_flows_and_stops() -> None:
    stream = StopStrings(["</end>", "STOP"])
    assert stream.push("Hello <") == ("Hello ", False)
    assert stream.push("b> S") == ("<b> ", False)
    assert stream.push("T") == ("", False)
    assert stream.push("OP and on") == ("", True)
    assert stream.stopped == "STOP"
    assert stream.push("more") == ("", True)
    assert stream.flush() == ""


def test_the_end_releases_what_was_held() -> None:
    stream = StopStrings(["END"])
    assert stream.push("the EN") == ("the ", False)
    assert stream.flush() == "EN"
    assert StopStrings([]).push("any text") == ("any text", False)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        StopStrings(["a", ""])
