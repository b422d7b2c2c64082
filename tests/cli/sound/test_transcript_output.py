"""Transcripts of several recordings: none is lost, whatever the recordings are called and whatever fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.cli.local import session
from antiphon.cli.sound import transcribe
from antiphon.cli.sound.transcript_output import TranscriptOutput, file_names
from antiphon.cli.terminal import files
from antiphon.errors import AudioError, InvalidRequestError
from antiphon.runtime.calls.transcript import Segment, Transcript, TranscriptionStats, Word
from support.programs.command_line import Invoke, assert_refused

STATS = TranscriptionStats(1.0, 1.0, 0.1, 0.1, 1, 0, 3)


@pytest.mark.parametrize(
    ("recordings", "names"),
    [
        (["a/talk.wav", "b/talk.wav"], ["talk.txt", "talk-2.txt"]),
        (["talk.wav", "talk.mp3", "other.wav"], ["talk.txt", "talk-2.txt", "other.txt"]),
        (["talk.wav", "b/talk.wav", "talk-2.wav"], ["talk.txt", "talk-3.txt", "talk-2.txt"]),
        (["Talk.wav", "talk.wav"], ["Talk.txt", "talk-2.txt"]),
        (["-", "stdin.wav"], ["stdin.txt", "stdin-2.txt"]),
        (["x.wav", "x.wav", "x.wav"], ["x.txt", "x-2.txt", "x-3.txt"]),
    ],
)
def test_names_differ(recordings: list[str], names: list[str]) -> None:
    assert file_names(recordings, "txt") == names


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every recording is heard as its own path; one that is called broken.wav cannot be decoded."""

    @contextmanager
    def no_engine(*_: Any, **__: Any) -> Iterator[Any]:
        yield SimpleNamespace(close=lambda: None)

    def one(_: Any, __: int, source: Any, wanted: dict[str, Any], ___: Any) -> Transcript:
        name = str(source)
        if name.endswith("broken.wav"):
            raise AudioError("it is broken")
        words = tuple(Word(f" {part}", index, index + 0.5, 1.0) for index, part in enumerate(Path(name).parts[-2:]))
        segment = Segment(0.0, 2.0, f" {name}", words=words if wanted["words"] else ())
        return Transcript("en", 1.0, 2.0, (segment,), "transcribe", STATS)

    monkeypatch.setattr(session, "load", lambda *_, **__: None)
    monkeypatch.setattr(session, "engine_for", no_engine)
    monkeypatch.setattr(transcribe, "_one", one)


@pytest.fixture
def talks(tmp_path: Path) -> list[str]:
    paths = [tmp_path / folder / "talk.wav" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(b"RIFF")
    return [str(path) for path in paths]


@pytest.mark.usefixtures("heard")
class TestFolder:
    def test_recordings_of_one_name_keep_both_transcripts(
        self,
        invoke: Invoke,
        talks: list[str],
        tmp_path: Path,
    ) -> None:
        out = tmp_path / "out"
        for _ in range(2):  # a second run writes the same files again
            outcome = invoke("transcribe", *talks, "--output", str(out))
            assert outcome.code == 0
            written = {path.name: path.read_text() for path in out.iterdir()}
            assert written == {"talk.txt": f"{talks[0]}\n", "talk-2.txt": f"{talks[1]}\n"}
            assert f"{talks[1]} -> {out}/talk-2.txt: " in outcome.err

    def test_a_broken_recording_does_not_lose_the_others(
        self,
        invoke: Invoke,
        talks: list[str],
        tmp_path: Path,
    ) -> None:
        broken = tmp_path / "broken.wav"
        broken.write_bytes(b"")
        outcome = invoke("transcribe", talks[0], str(broken), talks[1], "--output", str(tmp_path / "out"))
        assert outcome.code == 1
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["talk-2.txt", "talk.txt"]
        assert f"antiphon: {broken}: it is broken\n" in outcome.err
        assert outcome.err.endswith("antiphon: 1 of 3 recordings failed\n")

    def test_a_transcript_that_cannot_be_written(
        self,
        invoke: Invoke,
        talks: list[str],
        tmp_path: Path,
    ) -> None:
        """Where its file would be there is a folder; the other transcript is written."""
        out = tmp_path / "out"
        (out / "talk.txt").mkdir(parents=True)
        outcome = invoke("transcribe", *talks, "--output", str(out))
        assert outcome.code == 1
        assert f"antiphon: {talks[0]}: cannot write {out / 'talk.txt'}: Is a directory" in outcome.err
        assert (out / "talk-2.txt").read_text() == f"{talks[1]}\n"
        assert sorted(path.name for path in out.iterdir()) == ["talk-2.txt", "talk.txt"]  # no leftover

    def test_a_folder_that_cannot_be_made(
        self,
        invoke: Invoke,
        talks: list[str],
    ) -> None:
        assert_refused(invoke("transcribe", talks[0], "--output", talks[1]), f"cannot create the folder {talks[1]}")


def test_a_full_disk_keeps_the_old_transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = TranscriptOutput(["talk.wav"], "text", tmp_path)
    output.write(0, "old")

    def full(self: Path, *_: Any, **__: Any) -> None:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.Path, "write_text", full)
    with pytest.raises(InvalidRequestError, match=r"cannot write .*talk\.txt: No space left on device"):
        output.write(0, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["talk.txt"]
    assert (tmp_path / "talk.txt").read_text() == "old"


@pytest.mark.usefixtures("heard")
def test_words_have_their_times_in_every_format(invoke: Invoke, talks: list[str]) -> None:
    text = invoke("transcribe", talks[0], "--words").out
    assert text == "0.000\t0.500\ta\n1.000\t1.500\ttalk.wav\n"
    srt = invoke("transcribe", talks[0], "--words", "--format", "srt").out
    assert srt == "1\n00:00:00,000 --> 00:00:00,500\na\n\n2\n00:00:01,000 --> 00:00:01,500\ntalk.wav\n"
    vtt = invoke("transcribe", talks[0], "--words", "--format", "vtt").out
    assert vtt.splitlines()[2:4] == ["00:00:00.000 --> 00:00:00.500", "a"]
    assert '"words"' in invoke("transcribe", talks[0], "--words", "--format", "verbose_json").out
    assert invoke("transcribe", talks[0]).out == f"{talks[0]}\n"
    refused = invoke("transcribe", talks[0], "--words", "--format", "json")
    assert_refused(refused, "--words", "verbose_json", code=2)


class TestMicrophone:
    """What is missing is one sentence with what to install, before the model is loaded."""

    def complaint(self, invoke: Invoke) -> str:
        outcome = invoke("transcribe", "--live")
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        return outcome.err

    def test_no_package(self, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sounddevice", None)
        complaint = self.complaint(invoke)
        assert "`pip install sounddevice`" in complaint

    @pytest.mark.parametrize(
        ("module", "parts"),
        [
            ("raise OSError('PortAudio library not found')", ["PortAudio", "apt install libportaudio2"]),
            (
                "class PortAudioError(Exception): pass\n"
                "def query_devices(kind): raise PortAudioError('Error querying device -1')",
                ["no microphone was found", "Error querying device -1"],
            ),
        ],
    )
    def test_no_library_or_no_device(
        self,
        invoke: Invoke,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        module: str,
        parts: list[str],
    ) -> None:
        (tmp_path / "sounddevice.py").write_text(module + "\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
        complaint = self.complaint(invoke)
        monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
        for part in parts:
            assert part in complaint
