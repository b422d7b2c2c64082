"""A model that is for another task: what it is for and which models fit, before anything is downloaded or loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.runtime.loading import loading
from support.models.tiny_model import write_bert
from support.programs.command_line import Invoke, assert_refused
from support.programs.forks import BARE_MODULES, template

CHAT = "smollm2-135m is a chat model; "
CASES = [
    (["embed", "smollm2-135m", "FILE"], CHAT + "for embeddings use one of: all-minilm-l6-v2"),
    (["speak", "hi", "-o", "OUT", "--model", "smollm2-135m"], CHAT + "for speech use one of: hibari-6m, kokoro-82m"),
    (["speak", "--voices", "--model", "smollm2-135m"], CHAT + "for speech use one of: hibari-6m, kokoro-82m"),
    (["transcribe", "FILE", "--model", "smollm2-135m"], CHAT + "for transcription use one of: whisper-base, "),
    (["run", "whisper-base.en", "hi"], "whisper-base.en is a transcription model; use `antiphon transcribe`"),
    (["chat", "hibari-6m"], "hibari-6m is a speech model; use `antiphon speak`"),
    (["run", "all-minilm-l6-v2", "hi"], "all-minilm-l6-v2 is an embedding model; use `antiphon embed`"),
    (["batch", "silero-vad", "FILE"], "silero-vad is a voice activity detector; for text generation use one of: "),
]


@pytest.mark.parametrize(("arguments", "complaint"), CASES, ids=lambda value: " ".join(value)[:40])
def test_a_catalog_model(
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    file = tmp_path / "file"
    file.write_text("hello\n")
    paths = {"FILE": str(file), "OUT": str(tmp_path / "x.wav")}
    outcome = invoke(*(paths.get(part, part) for part in arguments))
    assert_refused(outcome, complaint)
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["transcribe", "FILE", "--model", "whisper-bse.en"], "whisper-base.en or whisper-base or whisper-tiny.en?"),
        (["speak", "hi", "-o", "OUT", "--model", "kokoro"], "kokoro-82m?"),
        (["chat", "whisper-bse.en"], "known names: gemma-3-1b, "),
        (["batch", "smollm2", "FILE"], "smollm2-135m"),
    ],
)
def test_near_names_are_of_the_same_task(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], near: str
) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    (tmp_path / "file").write_text("hello\n")
    paths = {"FILE": str(tmp_path / "file"), "OUT": str(tmp_path / "x.wav")}
    assert_refused(invoke(*(paths.get(part, part) for part in arguments)), "no model is called ", near)


def test_a_catalog_model_is_rejected_without_torch(tmp_path: Path) -> None:
    code = """
import sys
sys.argv = ["antiphon", "run", "whisper-base.en", "hi"]
from antiphon.cli.app import main
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    result = template(*BARE_MODULES).run(code, ())
    assert (result.returncode, result.stderr.count("\n")) == (1, 1), result.stderr


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["embed", "MODEL", "FILE"], "for embeddings use one of: all-minilm-l6-v2"),
        (["speak", "hi", "-o", "OUT", "--model", "MODEL"], "for speech use one of: hibari-6m, kokoro-82m"),
        (["transcribe", "FILE", "--model", "MODEL"], "for transcription use one of: whisper-base, "),
    ],
)
def test_a_folder_is_rejected_before_its_weights_are_read(
    invoke: Invoke,
    tiny_llama: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    needed: str,
) -> None:
    monkeypatch.setattr(loading, "build_model", lambda _: pytest.fail("the weights were read"))
    file = tmp_path / "file"
    file.write_text("hello\n")
    paths = {"FILE": str(file), "OUT": str(tmp_path / "x.wav"), "MODEL": str(tiny_llama)}
    outcome = invoke(*(paths.get(part, part) for part in arguments))
    assert_refused(outcome, f"tiny-llama is a language model; {needed}")


def test_an_embedding_folder_does_not_generate(
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = write_bert(tmp_path)
    monkeypatch.setattr(loading, "build_model", lambda _: pytest.fail("the weights were read"))
    assert_refused(invoke("run", str(folder), "hi"), "bert is an embedding model; use `antiphon embed`")


def test_a_voice_of_another_model(invoke: Invoke) -> None:
    outcome = invoke("speak", "hi", "--voice", "af_bella:0.5+heart", "-o", "x.wav")
    assert_refused(outcome, "af_bella is a voice of kokoro-82m, not of hibari-6m; add --model kokoro-82m", code=2)


@pytest.mark.parametrize(("model", "voices"), [("hibari-6m", {"heart"}), ("kokoro-82m", {"af_heart", "bm_george"})])
def test_voices_are_listed_without_weights(tmp_path: Path, model: str, voices: set[str]) -> None:
    """Nothing is downloaded, and torch is not imported."""
    code = f"""
import sys
sys.argv = ["antiphon", "speak", "--voices", "--model", {model!r}]
from antiphon.cli.app import main
main()
assert "torch" not in sys.modules
"""
    environment = {"ANTIPHON_HOME": str(tmp_path / "home"), "PATH": ""}
    result = template(*BARE_MODULES).run(code, (), environment)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    assert voices <= {row[0] for row in rows}
    assert all(row[1] in ("en-us", "en-gb", "es", "fr", "hi", "it", "ja", "pt-br", "zh") for row in rows)
    assert not (tmp_path / "home").exists()


def test_voices_beside_a_model_file(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07 not read")
    (tmp_path / "voices" / "bf_ann.bin").write_bytes(b"")
    outcome = invoke("speak", "--voices", "--model", str(tmp_path / "model.onnx"))
    assert (outcome.code, outcome.out.split()[:4]) == (0, ["bf_ann", "en-gb", "female", "also"])
