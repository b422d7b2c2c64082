"""The store: what counts as present, what verifying finds, what removing leaves."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from antiphon import environment
from antiphon.errors import CheckpointError, ModelNotFoundError
from antiphon.weights.catalog import ModelEntry
from antiphon.weights.lock import FileLock
from antiphon.weights.store import MANIFEST, ModelStore
from support.registries import model_entry, model_file

DATA = b"weights" * 100


def put(store: ModelStore, entry: ModelEntry, data: bytes = DATA) -> Path:
    path = store.path(entry, entry.files[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def test_a_model_is_present_when_every_file_has_its_size(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("sub/a.bin", DATA), model_file("b.bin", b"b"))
    assert [file.name for file in store.missing(entry)] == ["sub/a.bin", "b.bin"]
    put(store, entry)
    assert [file.name for file in store.missing(entry)] == ["b.bin"]
    (store.directory("m") / "b.bin").write_bytes(b"b")
    assert store.is_present(entry)
    store.verify(entry)


def test_verifying_names_the_file_that_is_not_what_was_fetched(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    path = put(store, entry, DATA[:-1] + b"!")
    with pytest.raises(CheckpointError, match=r"a\.bin does not have sha256 .*antiphon rm m"):
        store.verify(entry)
    path.write_bytes(DATA[:-1])
    with pytest.raises(CheckpointError, match=r"a\.bin has 699 bytes, not 700"):
        store.verify(entry)


def test_removing_frees_files_and_staging_and_refuses_what_is_not_there(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    put(store, entry)
    store.staging("m").mkdir(parents=True)
    (store.staging("m") / "half").write_bytes(b"123")
    assert store.remove("m") == len(DATA) + 3
    assert not store.directory("m").exists() and not store.staging("m").exists()
    with pytest.raises(ModelNotFoundError, match="m is not on this machine"):
        store.remove("m")


def test_a_recorded_model_is_known_again_until_a_file_is_lost(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("hub:o/r:a.bin", model_file("a.bin", DATA))
    path = put(store, entry)
    store.record(entry)
    again = store.recorded("hub:o/r:a.bin")
    assert again is not None and (again.main, again.format, again.size) == ("a.bin", entry.format, len(DATA))
    assert store.recorded("hub:o/r") is None
    path.unlink()
    assert store.recorded("hub:o/r:a.bin") is None
    (store.directory("hub:o/r:a.bin") / MANIFEST).write_text("{")
    assert list(store.recorded_entries()) == []


def test_home_is_the_variable_or_the_platforms_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "here"))
    assert ModelStore.default().home == tmp_path / "here"
    monkeypatch.delenv("ANTIPHON_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    assert environment.home() == tmp_path / "cache" / "antiphon"
    monkeypatch.setattr("sys.platform", "darwin")
    assert environment.home() == Path.home() / "Library" / "Caches" / "antiphon"


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("yes", True), ("0", False), ("", False), ("no", False)])
def test_the_offline_variable(monkeypatch: pytest.MonkeyPatch, value: str, offline: bool) -> None:
    monkeypatch.setenv("ANTIPHON_OFFLINE", value)
    assert environment.offline() is offline


def _hold(path: Path, held: Event) -> None:
    with FileLock(path):
        held.set()
        time.sleep(60)


def test_a_lock_waits_for_its_holder_and_is_free_when_the_holder_is_killed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "x.lock", held))
    holder.start()
    assert held.wait(120)
    waited = []

    def on_wait() -> None:
        waited.append(True)
        holder.kill()

    with FileLock(tmp_path / "x.lock", on_wait):
        assert waited == [True]
    holder.join()
