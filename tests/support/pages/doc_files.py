"""Files that the docs' examples read: recordings of real speech, texts, a schema, a git repository."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from support.sound.speech import JFK_SPEECH, JFK_TEXT, RATE, jfk

PERSON_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "born": {"type": "integer"},
        "profession": {"type": "string", "maxLength": 40},
    },
    "required": ["name", "born", "profession"],
    "additionalProperties": False,
}


def write_doc_files(folder: Path) -> None:
    """Write every file that a command in the docs reads and does not create itself."""
    folder.mkdir(parents=True, exist_ok=True)
    from antiphon.audio.decode import decode

    speech = decode(jfk(), rate=RATE).values
    _encode(folder / "meeting.m4a", speech, "aac")
    question = round(JFK_SPEECH[2][0] * RATE)  # second half: "ask not what your country can do for you ..."
    _encode(folder / "lecture.mp3", speech[question:], "libmp3lame")
    shutil.copy(folder / "lecture.mp3", folder / "talk.mp3")
    (folder / "recordings").mkdir(exist_ok=True)
    shutil.copy(folder / "meeting.m4a", folder / "recordings")
    (folder / "recordings" / "meeting.txt").write_text(JFK_TEXT)
    (folder / "person.schema.json").write_text(json.dumps(PERSON_SCHEMA))
    (folder / "prompts.txt").write_text("Name a colour.\nWhat is two and two?\n")
    (folder / "texts.txt").write_text("The choir sings in the old church.\nA dog barks at the postman.\n")
    (folder / "chapter.txt").write_text("It was late. The choir had gone home, and the church was quiet.\n")
    (folder / "lexicon.txt").write_text("antiphon ˈæntɪfˌɑn\n")
    (folder / "keys.txt").write_text("a-long-random-key\n")
    _git_repository(folder)


def _encode(path: Path, samples: NDArray[np.float32], codec: str) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=RATE)
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate = RATE
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)


def _git_repository(folder: Path) -> None:
    """Create a repository with an uncommitted change, for `git diff`."""
    git = shutil.which("git")
    assert git is not None, "git is needed for the docs' `git diff | antiphon run`"
    who = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
    (folder / "greeting.py").write_text('print("Hello")\n')
    for arguments in (["init", "-q"], ["add", "greeting.py"], [*who, "commit", "-q", "-m", "A greeting"]):
        subprocess.run([git, *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "greeting.py").write_text('print("Good morning")\n')
