"""The store: what counts as present, what verifying finds, what removing leaves."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from antiphon import environment
from antiphon.errors import CheckpointError, HomeError, ModelNotFoundError
from antiphon.weights.catalog.catalog import HubSource, ModelEntry
from antiphon.weights.catalog.hub_cache import HubCache
from antiphon.weights.catalog.store import MANIFEST, ModelStore, Removal
from support.fetching.registries import COMMIT, model_entry, model_file, put_in_cache
from support.programs.forks import BARE_MODULES, template
from support.waiting import wait_until

DATA = b"weights" * 100


def put(store: ModelStore, entry: ModelEntry, data: bytes = DATA) -> Path:
    path = store.path(entry, entry.files[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def test_a_model_is_present_when_every_file_has_its_size(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("sub/a.bin", DATA), model_file("b.bin", b"b"))
    assert [(fault.file.name, fault.reason) for fault in store.faults(entry)] == [
        ("sub/a.bin", "is missing"),
        ("b.bin", "is missing"),
    ]
    put(store, entry)
    assert [fault.file.name for fault in store.faults(entry)] == ["b.bin"]
    (store.directory("m") / "b.bin").write_bytes(b"b")
    assert store.is_present(entry)
    store.verify(entry)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(DATA[:-1], "is truncated: it has 699 of 700 bytes"), (DATA + b"!", "has 701 bytes instead of 700")],
)
def test_a_wrong_size_is_named_with_both_numbers(tmp_path: Path, data: bytes, reason: str) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    path = put(store, entry, data)
    (fault,) = store.faults(entry)
    assert str(fault) == f"{path} {reason}"
    with pytest.raises(CheckpointError, match=rf"a\.bin {reason}\. Run `antiphon pull m` to download it again"):
        store.verify(entry)


def test_verifying_names_the_file_that_is_not_what_was_downloaded(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    put(store, entry, DATA[:-1] + b"!")
    with pytest.raises(
        CheckpointError, match=r"a\.bin has changed: its sha256 is \w{12}…, not \w{12}….*antiphon pull m"
    ):
        store.verify(entry)


def reads(store: ModelStore, entry: ModelEntry, *, every_byte: bool = False) -> tuple[list[str], list[str]]:
    """The files that a check reads, and those that it finds changed."""
    read: list[str] = []
    faults = store.changed(entry, every_byte=every_byte, on_read=lambda file: read.append(file.name))
    return read, [fault.file.name for fault in faults]


def test_a_file_is_read_once_and_again_only_when_it_looks_changed(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    path = put(store, entry)
    assert reads(store, entry) == (["a.bin"], [])
    assert reads(store, entry) == ([], [])
    path.touch()
    assert reads(store, entry) == (["a.bin"], [])
    assert reads(store, entry) == ([], [])
    path.with_suffix(".new").write_bytes(DATA)
    os.utime(path.with_suffix(".new"), ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    path.with_suffix(".new").rename(path)
    assert reads(store, entry) == (["a.bin"], []), "another file of the same age and size has another inode"


def test_changed_bytes_are_found_at_every_later_check_too(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    path = put(store, entry)
    store.verify(entry)
    path.write_bytes(DATA[:-1] + b"!")
    os.utime(path, ns=(0, 0))
    for _ in range(2):
        assert reads(store, entry) == (["a.bin"], ["a.bin"])
    path.write_bytes(DATA)
    assert reads(store, entry) == (["a.bin"], [])


def test_bytes_that_rot_under_the_same_time_are_found_by_reading_every_byte(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    path = put(store, entry)
    store.verify(entry)
    before = path.stat()
    path.write_bytes(DATA[:-1] + b"!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert reads(store, entry) == ([], [])
    assert reads(store, entry, every_byte=True) == (["a.bin"], ["a.bin"])
    assert reads(store, entry) == (["a.bin"], ["a.bin"]), "once found, it stays found"


def test_a_file_without_a_published_sum_is_held_to_the_bytes_that_came(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", replace(model_file("a.json", DATA), sha256=None))
    path = put(store, entry)
    assert reads(store, entry) == (["a.json"], [])
    path.write_bytes(DATA[:-1] + b"!")
    os.utime(path, ns=(0, 0))
    assert reads(store, entry) == (["a.json"], ["a.json"])


@pytest.mark.parametrize("content", ["{", "[]", '{"a.bin": {"nonsense": 1}}', '{"a.bin": 3}', "\udc80"])
def test_a_record_that_cannot_be_read_means_that_files_are(tmp_path: Path, content: str) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    put(store, entry)
    store.verify(entry)
    store.verified("m").path.write_bytes(content.encode(errors="surrogateescape"))
    assert reads(store, entry) == (["a.bin"], [])
    assert reads(store, entry) == ([], [])


def test_a_home_that_cannot_be_written_is_checked_by_reading(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    put(store, entry)
    (tmp_path / "verified").write_text("in the way of the record")
    assert reads(store, entry) == reads(store, entry) == (["a.bin"], [])


def test_files_that_may_not_be_read_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    path = put(store, entry)

    def denied(*_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("antiphon.weights.catalog.store.sha256_of", denied)
        with pytest.raises(HomeError, match=rf"{path} may not be read \(permission denied\)"):
            store.changed(entry)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", denied)
        with pytest.raises(HomeError, match=rf"{path} may not be read \(Permission denied\).*set ANTIPHON_HOME"):
            store.faults(entry)


def test_removing_frees_files_and_staging_and_rejects_what_is_not_there(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("m", model_file("a.bin", DATA))
    put(store, entry)
    store.verify(entry)
    store.staging("m").mkdir(parents=True)
    (store.staging("m") / "part").write_bytes(b"12345")
    assert store.remove("m") == Removal(len(DATA) + 5, ())
    assert not store.directory("m").exists() and not store.staging("m").exists()
    assert not store.verified("m").path.exists()
    with pytest.raises(ModelNotFoundError, match="m is not downloaded"):
        store.remove("m")


def linked(store: ModelStore, cache: Path, name: str, *, is_ours: bool) -> Path:
    """A model whose file is in the Hugging Face cache; returns the file there."""
    snapshot = cache / "models--o--r" / "snapshots" / COMMIT
    path = snapshot / "a.bin" if snapshot.exists() else put_in_cache(cache, "o/r", {"a.bin": DATA}) / "a.bin"
    entry = model_entry(name, model_file("a.bin", DATA))
    store.link(entry, entry.files[0], path, entry.files[0].sha256 or "", is_ours=is_ours)
    assert store.path(entry, entry.files[0]).read_bytes() == DATA
    assert reads(store, entry) == ([], [])
    return path


def test_removing_a_link_deletes_from_the_cache_only_what_antiphon_downloaded(tmp_path: Path) -> None:
    store, cache = ModelStore(tmp_path / "home"), tmp_path / "cache"
    path = linked(store, cache, "found", is_ours=False)
    assert store.remove("found") == Removal(0, (("o/r", path),))
    assert path.read_bytes() == DATA
    linked(store, cache, "ours", is_ours=True)
    assert store.remove("ours") == Removal(len(DATA), ())
    assert not (cache / "models--o--r").exists()


def test_a_cached_file_that_two_models_use_goes_with_the_second(tmp_path: Path) -> None:
    store, cache = ModelStore(tmp_path / "home"), tmp_path / "cache"
    path = linked(store, cache, "first", is_ours=True)
    linked(store, cache, "second", is_ours=False)
    assert store.remove("first") == Removal(0, ())
    assert path.exists()
    assert store.remove("second") == Removal(len(DATA), ())
    assert not path.exists()


def test_a_blob_that_another_snapshot_uses_is_kept(tmp_path: Path) -> None:
    snapshot = put_in_cache(tmp_path, "o/r", {"a.bin": DATA, "b.bin": b"b"})
    other = snapshot.with_name("d" * 40)
    shutil.copytree(snapshot, other, symlinks=True)
    cache = HubCache(tmp_path)
    assert cache.remove(snapshot / "a.bin") == 0
    assert (other / "a.bin").read_bytes() == DATA
    assert cache.remove(other / "a.bin") == len(DATA)
    assert (other / "b.bin").read_bytes() == b"b"


def test_without_links_a_cached_file_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", unsupported)
    store, entry = ModelStore(tmp_path / "home"), model_entry("m", model_file("a.bin", DATA))
    path = put_in_cache(tmp_path / "cache", "o/r", {"a.bin": DATA}, links=False) / "a.bin"
    store.link(entry, entry.files[0], path, entry.files[0].sha256 or "", is_ours=True)
    assert not store.path(entry, entry.files[0]).is_symlink()
    assert store.remove("m") == Removal(len(DATA), ())
    assert path.exists()


def test_a_recorded_model_is_known_again(tmp_path: Path) -> None:
    source = HubSource("o/r", "a.bin", COMMIT)
    store, entry = ModelStore(tmp_path), model_entry("hub:o/r:a.bin", model_file("a.bin", DATA, source))
    path = put(store, entry)
    store.record(entry)
    again = store.recorded("hub:o/r:a.bin")
    assert again is not None and (again.main, again.format, again.files) == ("a.bin", entry.format, entry.files)
    assert store.recorded("hub:o/r") is None
    path.unlink()
    assert store.recorded("hub:o/r:a.bin") == again and not store.is_present(again)
    (store.directory("hub:o/r:a.bin") / MANIFEST).write_text("{")
    assert list(store.recorded_entries()) == []


def test_a_manifest_without_sources_has_its_repository(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), model_entry("hub:o/r:a.bin", model_file("a.bin", DATA))
    put(store, entry)
    store.record(entry)
    path = store.directory(entry.name) / MANIFEST
    manifest = json.loads(path.read_text())
    del manifest["files"][0]["sources"]
    path.write_text(json.dumps(manifest))
    again = store.recorded(entry.name)
    assert again is not None and again.files[0].sources == (HubSource("o/r", "a.bin"),)


def test_home_is_the_variable_or_the_platforms_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "here"))
    assert ModelStore.default().home == tmp_path / "here"
    monkeypatch.delenv("ANTIPHON_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    assert environment.home() == tmp_path / "cache" / "antiphon"
    monkeypatch.setattr("sys.platform", "darwin")
    assert environment.home() == Path.home() / "Library" / "Caches" / "antiphon"


def test_a_home_that_is_a_file_or_inside_one_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    monkeypatch.setenv("ANTIPHON_HOME", str(file))
    with pytest.raises(HomeError, match=rf"ANTIPHON_HOME \({file}\) is a file, not a folder: set ANTIPHON_HOME to a"):
        environment.home()
    monkeypatch.setenv("ANTIPHON_HOME", str(file / "sub" / "folder"))
    with pytest.raises(HomeError, match=rf"folder\) is inside {file}, which is a file"):
        ModelStore.default()
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "not" / "yet"))
    assert environment.home() == tmp_path / "not" / "yet"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HF_HUB_CACHE": "$BASE/a"}, "a"),
        ({"HUGGINGFACE_HUB_CACHE": "$BASE/b"}, "b"),
        ({"HF_HOME": "$BASE/c"}, "c/hub"),
        ({"XDG_CACHE_HOME": "$BASE/d"}, "d/huggingface/hub"),
        ({"HOME": "$BASE"}, ".cache/huggingface/hub"),
    ],
)
def test_the_hugging_face_cache_is_where_its_library_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BASE", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value if name != "HOME" else str(tmp_path))
    assert environment.hub_cache() == tmp_path / folder
    code = "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"
    done = template(*BARE_MODULES).run(code, [])
    assert done.returncode == 0 and Path(done.stdout.strip()) == environment.hub_cache()


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("yes", True), ("0", False), ("", False), ("no", False)])
def test_the_offline_variable(monkeypatch: pytest.MonkeyPatch, value: str, offline: bool) -> None:
    monkeypatch.setenv("ANTIPHON_OFFLINE", value)
    assert environment.offline() is offline


HOLD = """
import pathlib, signal, sys
from antiphon.weights.catalog.store import ModelStore
with ModelStore(pathlib.Path(sys.argv[1])).lock("x"):
    pathlib.Path(sys.argv[2]).touch()
    signal.pause()
"""


def test_a_lock_waits_for_its_holder_and_is_free_when_the_holder_is_killed(tmp_path: Path) -> None:
    held = tmp_path / "held"
    with open(os.devnull, "r+b") as null:
        holder = template(*BARE_MODULES).start(HOLD, [str(tmp_path), str(held)], (null.fileno(),) * 3)
    wait_until(held.exists, "another process to hold the lock")
    waited = []

    def on_wait() -> None:
        waited.append(True)
        holder.kill()

    with ModelStore(tmp_path).lock("x", on_wait):
        assert waited == [True]
