"""The progress of recordings: figures, and a terminal beside a standard output that goes elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from antiphon.cli.sound.recording_progress import RecordingProgress, figures_text, sound_seconds
from support.sound.sounds import wav_bytes


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, 331, 5, "0:00 of 5:31"),
        (90, 331, 10, "1:30 of 5:31, 0:27 left"),
        (331, 331, 10, "5:31 of 5:31"),
        (7200, 14400, 61, "2:00:00 of 4:00:00, 1:01 left"),
        (31, None, 10, "0:31"),
    ],
)
def test_figures(done: float, total: float | None, seconds: float, text: str) -> None:
    assert figures_text(done, total, seconds) == text


def test_bars_are_there_from_the_start_and_leave_standard_output_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with RecordingProgress(["a.wav"], clock=iter([0.0, 10.0]).__next__) as progress:
        assert progress.is_shown and "a.wav" in capsys.readouterr().err
        progress.update(0, 30.0, 60.0)
        with progress.paused():
            print("the transcript")
    shown = capsys.readouterr()
    assert shown.out == "the transcript\n"
    assert "0:30 of 1:00, 0:10 left" in shown.err and "the transcript" not in shown.err


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with RecordingProgress(["a.wav"]) as progress:
        progress.update(0, 1.0, 2.0)
        with progress.paused():
            pass
    assert not progress.is_shown and capsys.readouterr().err == ""


def test_the_length_of_a_recording(tmp_path: Path) -> None:
    import numpy as np

    (tmp_path / "a.wav").write_bytes(wav_bytes(np.zeros(16_000, np.float32)))
    (tmp_path / "b.wav").write_bytes(b"no sound")
    assert sound_seconds(tmp_path / "a.wav") == pytest.approx(1.0)
    assert sound_seconds(tmp_path / "b.wav") is None
