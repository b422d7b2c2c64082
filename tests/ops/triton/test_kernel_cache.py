"""Compiled kernels are kept in ANTIPHON_HOME, unless the user says where or it cannot be written."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

pytest.importorskip("triton")

from triton import knobs

from antiphon.ops.triton.kernel_cache import CompiledMarks, cache_folder, use_kernel_cache


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Triton's own folder, with none chosen."""
    folder = tmp_path / "triton"
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME"):
        monkeypatch.setenv(name, "")  # restored afterwards; Triton sets it with the knob
        monkeypatch.delenv(name)
    monkeypatch.setitem(vars(knobs.cache), "dir", str(folder))
    return folder


def test_in_the_home(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    use_kernel_cache()
    assert cache_folder() == tmp_path / "home" / "kernels"
    assert cache_folder().is_dir()


def test_where_the_user_says(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "chosen"))
    use_kernel_cache()
    assert not (tmp_path / "home").exists()


def test_a_home_that_cannot_be_written(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "kernels").write_text("a file")
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    use_kernel_cache()
    assert cache_folder() == own
    (record,) = [record for record in caplog.records if str(own) in record.getMessage()]
    assert record.levelno == logging.WARNING


def test_marks(tmp_path: Path) -> None:
    marks = CompiledMarks(tmp_path)
    assert "abc" not in marks
    marks.add("abc")
    assert "abc" in CompiledMarks(tmp_path)
    (tmp_path / "file").write_text("")
    CompiledMarks(tmp_path / "file").add("abc")  # cannot be written: no error
    assert "abc" not in CompiledMarks(tmp_path / "file")
