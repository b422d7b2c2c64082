"""Where speech goes: files, a full disk, players that fail."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from antiphon.cli.sound.sound_output import Sinks, check_destination
from antiphon.errors import AudioError, InvalidRequestError

SECOND = np.zeros(24_000, dtype=np.float32)
NOISE = "ALSA lib confmisc.c:855:(parse_card) cannot find card '0'\naplay: main:850: audio open error: No such file"


def player(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    """The only program there is to play sound: a shell script."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("antiphon.cli.sound.sound_output.PLAYERS", ((name, "{}"),))


def play(seconds: int) -> None:
    with Sinks(None, "wav", True) as sinks:
        for _ in range(seconds):
            sinks.write(SECOND, 24_000)


def test_a_player_is_given_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player(tmp_path, monkeypatch, "aplay", f'echo "$1" > {tmp_path}/rate; cat > {tmp_path}/heard')
    play(2)
    assert (tmp_path / "heard").stat().st_size == 2 * 48_000
    assert (tmp_path / "rate").read_text().strip() == "24000"


@pytest.mark.parametrize("seconds", [1, 60])
def test_no_sound_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], seconds: int
) -> None:
    """The player ends with an error, before or after everything was written to it; its noise becomes one sentence."""
    player(tmp_path, monkeypatch, "aplay", f'echo "{NOISE}" >&2; exit 1')
    with pytest.raises(AudioError) as failed:
        play(seconds)
    assert str(failed.value) == (
        "aplay cannot play the sound (aplay: main:850: audio open error: No such file); is there a sound card? "
        "To write a file: -o speech.wav"
    )
    assert capfd.readouterr().err == ""


def test_a_player_without_a_device_that_ends_as_if_it_had_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    player(
        tmp_path, monkeypatch, "ffplay", "cat > /dev/null; echo 'No more combinations to try, audio open failed' >&2"
    )
    with pytest.raises(AudioError, match=r"audio open failed.*-o speech.wav"):
        play(1)


def test_no_player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AudioError, match=r"no program that plays sound.*ffplay, aplay.*-o speech.wav"):
        check_destination(None, False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("format_", ["wav", "flac", "pcm"])
def test_a_full_disk_names_the_file(format_: str, recwarn: pytest.WarningsRecorder) -> None:
    with (
        pytest.raises(InvalidRequestError, match=r"^cannot write /dev/full: No space left on device$"),
        Sinks("/dev/full", format_, False) as sinks,
    ):
        sinks.write(SECOND, 24_000)
    assert not recwarn.list


def test_a_wav_file_states_its_length(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    with Sinks(str(path), "wav", False) as sinks:
        sinks.write(SECOND, 24_000)
        sinks.write(SECOND[:100], 24_000)
    with wave.open(str(path)) as file:
        assert (file.getnframes(), file.getframerate(), file.getnchannels()) == (24_100, 24_000, 1)
    assert path.stat().st_size == 44 + 2 * 24_100


def test_nothing_to_say_leaves_no_file(tmp_path: Path) -> None:
    with Sinks(str(tmp_path / "x.wav"), "wav", False):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("output", "why"), [("/nosuch/x.wav", "there is no folder /nosuch"), ("/", "it is a folder")])
def test_a_destination_that_cannot_be(output: str, why: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"cannot write {output}: {why}"):
        check_destination(output, False)
