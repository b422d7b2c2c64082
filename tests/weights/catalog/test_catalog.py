"""The catalog: complete, pinned, well-formed; and a reader that rejects what is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.errors import ModelNotFoundError
from antiphon.weights.catalog.catalog import (
    CATALOG_FILE,
    RECOMMENDED_FILE,
    HubSource,
    PackageSource,
    catalog,
    find_entry,
    read_catalog,
)

NAMES = {
    "qwen2.5-coder-0.5b": "chat",
    "qwen2.5-coder-1.5b": "chat",
    "smollm2-135m": "chat",
    "gemma-3-270m": "completion",
    "tinyllama-1.1b": "chat",
    "stories-15m": "completion",
    "whisper-tiny.en": "transcription",
    "whisper-base.en": "transcription",
    "whisper-base": "transcription",
    "kokoro-82m": "speech",
    "hibari-6m": "speech",
    "english-phonemes": "phonemes",
    "all-minilm-l6-v2": "embedding",
    "silero-vad": "voice-activity",
    "smart-turn": "end-of-turn",
}


def test_every_promised_model_is_there_with_its_task() -> None:
    assert {name: entry.task for name, entry in read_catalog(CATALOG_FILE).items()} == NAMES


def test_recommended_models_are_on_the_hub_alone_and_say_what_they_are_for() -> None:
    recommended = read_catalog(RECOMMENDED_FILE)
    assert len(recommended) > 10 and not recommended.keys() & NAMES.keys()
    assert list(catalog()) == [*NAMES, *recommended]
    for entry in recommended.values():
        assert entry.use and entry.needs_hub and not entry.is_pinned and not entry.is_tried
        (file,) = entry.files
        assert file.sha256 is None and [type(source) for source in file.sources] == [HubSource]
        assert entry.format in ("gguf", "hf", "ggml-whisper") and entry.main == file.name


def test_every_file_is_pinned_and_has_a_package_to_come_from() -> None:
    for entry in read_catalog(CATALOG_FILE).values():
        assert entry.is_pinned and entry.is_tried and not entry.needs_hub
        names = [file.name for file in entry.files]
        assert len(set(names)) == len(names)
        for file in entry.files:
            assert file.sha256 is not None and set(file.sha256) <= set("0123456789abcdef")
            kinds = [type(source) for source in file.sources]
            assert kinds in ([HubSource, PackageSource], [PackageSource]), (entry.name, file.name)


def test_checksums_published_by_the_models_makers() -> None:
    """Sums that OpenAI, Qwen and sentence-transformers publish for these very files."""
    published = {
        ("whisper-tiny.en", "tiny.en.pt"): "d3dd57d32accea0b295c96e26691aa14d8822fac7d9d27d5dc00b4ca2826dd03",
        ("qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"): (
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
        ),
        ("all-minilm-l6-v2", "model.safetensors"): "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    }
    for (model, name), sha256 in published.items():
        assert {file.name: file.sha256 for file in catalog()[model].files}[name] == sha256


def test_stories_is_cut_out_of_one_member_without_a_gap() -> None:
    entry = find_entry("stories-15m")
    checkpoint, tokenizer = (file.sources[-1].parts[0] for file in entry.files)  # type: ignore[union-attr]
    assert (checkpoint.package, checkpoint.member) == (tokenizer.package, tokenizer.member)
    assert (checkpoint.start, checkpoint.stop, tokenizer.start, tokenizer.stop) == (0, 60_816_028, 60_816_028, None)


def test_kokoro_brings_all_its_voices() -> None:
    voices = [file for file in find_entry("kokoro-82m").files if file.name.startswith("voices/")]
    assert len(voices) == 54
    assert {file.size for file in voices} == {510 * 256 * 4}


def test_names_are_found_whatever_their_case_and_near_ones_are_offered() -> None:
    assert find_entry("SmolLM2-135M").name == "smollm2-135m"
    with pytest.raises(ModelNotFoundError, match=r"'smollm-135m'.*did you mean smollm2-135m"):
        find_entry("smollm-135m")
    with pytest.raises(ModelNotFoundError, match=r"known names: qwen2\.5-coder-0\.5b, "):
        find_entry("zzzzzz")


GOOD = """
[model]
title = "A model"
task = "chat"
format = "gguf"
licence = "MIT"
main = "a.gguf"
[[model.files]]
name = "a.gguf"
size = 3
sha256 = "{sha}"
sources = [{{ hub = "o/r", file = "a.gguf" }}, {{ parts = [{{ npm = "@scope/p@1.0.0", member = "m", start = 1 }}] }}]
""".format(sha="0" * 64)


def test_a_scoped_npm_package_keeps_its_scope(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(GOOD)
    source = read_catalog(tmp_path / "c.toml")["model"].files[0].sources[1]
    assert isinstance(source, PackageSource)
    package = source.parts[0].package
    assert (package.name, package.version, str(package)) == ("@scope/p", "1.0.0", "@scope/p@1.0.0")
    assert not source.parts[0].is_whole


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('task = "chat"', 'task = "cooking"', "unknown task 'cooking'"),
        ('main = "a.gguf"', 'main = "b.gguf"', "main file 'b.gguf'"),
        ('licence = "MIT"', "", "lacks 'licence'"),
        ('name = "a.gguf"', 'name = "../a.gguf"', "leaves its folder"),
        ('sha256 = "0', 'sha256 = "', "needs a sha256"),
        ("@1.0.0", "", "not pinned to a version"),
    ],
)
def test_a_bad_entry_is_rejected_by_name(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    (tmp_path / "c.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(ValueError, match=f"'model'.*{complaint}"):
        read_catalog(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("size = 3", "size = 0", "needs a size"),
        ('file = "a.gguf"', "", "lacks 'file'"),
        ('file = "a.gguf"', 'file = "../a.gguf"', "leaves its folder"),
    ],
)
def test_a_bad_recommendation_is_rejected_by_name(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    table = GOOD.partition("main =")[0] + 'hub = "o/r"\nfile = "a.gguf"\nsize = 3\n'
    (tmp_path / "c.toml").write_text(table)
    assert not read_catalog(tmp_path / "c.toml")["model"].is_pinned
    (tmp_path / "c.toml").write_text(table.replace(old, new))
    with pytest.raises(ValueError, match=f"'model'.*{complaint}"):
        read_catalog(tmp_path / "c.toml")


def test_the_catalog_and_fetching_do_not_import_torch() -> None:
    code = "import sys, antiphon.weights.catalog.resolve; assert not {'torch', 'numpy', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert CATALOG_FILE.is_file()
