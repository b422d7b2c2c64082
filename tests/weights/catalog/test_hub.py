"""The model hub and its cache: what is taken from where, and every way it can fail, against a local server."""

from __future__ import annotations

import os
import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

from antiphon.errors import CheckpointError, FetchError
from antiphon.weights.catalog.catalog import HubSource, ModelEntry, Package, PackagePart, PackageSource
from antiphon.weights.catalog.fetch import FetchProgress, fetch, is_downloaded
from antiphon.weights.catalog.hub import Hub, HubUnreachableError
from antiphon.weights.catalog.store import ModelStore
from support.fetching.registries import (
    COMMIT,
    ENDLESS_BYTES,
    LocalHub,
    Registries,
    local_hub,
    model_entry,
    model_file,
    put_in_cache,
)

DATA = b"weights of a model, " * 200
NAME = "o/r/f/a.bin"
SNAPSHOT = f"models--o--r/snapshots/{COMMIT}"


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def server() -> Iterator[LocalHub]:
    with local_hub({NAME: DATA}) as hub:
        yield hub


def entry_of(data: bytes = DATA, *more: PackageSource) -> ModelEntry:
    return model_entry("m", model_file("a.bin", data, HubSource("o/r", "f/a.bin"), *more))


def mirror(registries: Registries) -> PackageSource:
    registries.add_tarball("mirror", "1.0.0", {"a": DATA})
    return PackageSource((PackagePart(Package("npm", "mirror", "1.0.0"), "a"),))


def files_under(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def notices(seen: list[FetchProgress]) -> list[str]:
    return [update.activity for update in seen if update.is_notice]


def no_half_file(cache: Path) -> bool:
    return not any(path for path in cache.glob("models--*/**/*") if path.is_file() and "refs" not in path.parts)


def test_a_hub_file_is_kept_in_the_hugging_face_cache_and_linked(
    server: LocalHub, store: ModelStore, cache: Path
) -> None:
    entry = entry_of()
    seen: list[FetchProgress] = []
    fetch(entry, store, hub=Hub(server.endpoint, cache), progress=seen.append)
    path = store.directory("m") / "a.bin"
    assert path.is_symlink() and path.read_bytes() == DATA
    assert path.readlink() == cache / SNAPSHOT / "f/a.bin"
    assert (cache / "models--o--r/refs/main").read_text() == COMMIT
    assert not notices(seen) and seen[-1].done == seen[-1].total == len(DATA)
    from huggingface_hub import try_to_load_from_cache

    assert try_to_load_from_cache("o/r", "f/a.bin", cache_dir=cache) == str(path.readlink())
    fetch(entry, store, hub=Hub("http://127.0.0.1:9", cache), offline=True)
    assert len(server.downloads()) == 1
    assert store.remove("m").freed == len(DATA)
    assert no_half_file(cache)


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("offline", [True, False])
def test_a_file_that_another_program_downloaded_is_used_without_the_hub(
    store: ModelStore, cache: Path, links: bool, offline: bool
) -> None:
    snapshot = put_in_cache(cache, "o/r", {"f/a.bin": DATA}, links=links)
    entry = entry_of()
    fetch(entry, store, hub=Hub("http://127.0.0.1:9", cache), offline=offline)
    assert (store.directory("m") / "a.bin").readlink() == snapshot / "f/a.bin"
    store.verify(entry)
    removal = store.remove("m")
    assert (removal.freed, removal.kept) == (0, (("o/r", snapshot / "f/a.bin"),))
    assert (snapshot / "f/a.bin").read_bytes() == DATA


def test_list_counts_what_is_in_the_cache(store: ModelStore, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    assert not is_downloaded(entry_of(), store)
    put_in_cache(cache, "o/r", {"f/a.bin": DATA})
    assert is_downloaded(entry_of(), store)
    assert not is_downloaded(entry_of(DATA[:-1] + b"!"), store), "another version of the same size"


def test_another_version_in_the_cache_is_passed_over(server: LocalHub, store: ModelStore, cache: Path) -> None:
    old = put_in_cache(cache, "o/r", {"f/a.bin": DATA[:-1] + b"!"})
    old.rename(old.with_name("d" * 40))
    fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    store.verify(entry_of())
    assert (old.with_name("d" * 40) / "f/a.bin").exists()


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("damage", [DATA[:-1] + b"!", DATA[:-100]])
def test_a_damaged_file_in_the_cache_is_named_and_not_deleted(
    server: LocalHub, store: ModelStore, cache: Path, damage: bytes, links: bool
) -> None:
    path = put_in_cache(cache, "o/r", {"f/a.bin": DATA}, links=links) / "f/a.bin"
    path.write_bytes(damage)
    with pytest.raises(FetchError) as error:
        fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    text = str(error.value)
    assert f"the Hugging Face cache holds a damaged file, which was not deleted: {path} has {len(damage):,} " in text
    assert "`hf cache rm model/o/r`" in text
    assert path.read_bytes() == damage
    assert files_under(store.home) == {"locks/m.lock"}


def test_a_damaged_file_in_the_cache_is_replaced_by_a_mirror_with_a_notice(
    store: ModelStore, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = entry_of(DATA, mirror(Registries(tmp_path / "packages", monkeypatch)))
    path = put_in_cache(cache, "o/r", {"f/a.bin": DATA}) / "f/a.bin"
    path.write_bytes(DATA[:-1] + b"!")
    seen: list[FetchProgress] = []
    fetch(entry, store, hub=Hub("http://127.0.0.1:9", cache), progress=seen.append)
    (notice,) = notices(seen)
    assert f"{path} has" in notice and "a.bin is downloaded from a mirror instead: package mirror@1.0.0" in notice
    assert path.read_bytes() != DATA
    store.verify(entry)


def test_bytes_that_change_on_the_disk_are_an_error_at_the_next_load_and_pull_repairs_them(
    server: LocalHub, store: ModelStore, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = entry_of(DATA, mirror(Registries(tmp_path / "packages", monkeypatch)))
    hub = Hub("http://127.0.0.1:9", cache)
    fetch(entry, store, hub=hub)
    path = store.directory("m") / "a.bin"
    path.write_bytes(DATA[:-1] + b"!")
    for offline in (False, True):
        with pytest.raises(CheckpointError) as error:
            fetch(entry, store, hub=hub, offline=offline)
        assert str(error.value).startswith(f"m: {path} has changed: its sha256 is ")
        assert "Run `antiphon pull m` to download it again" in str(error.value)
    seen: list[FetchProgress] = []
    fetch(entry, store, hub=hub, repair=True, progress=seen.append)
    assert notices(seen)[0].startswith(f"{path} has changed: ") and notices(seen)[0].endswith("; downloading it again")
    store.verify(entry)


def test_a_changed_file_of_the_cache_is_named_by_its_path_there(
    server: LocalHub, store: ModelStore, cache: Path
) -> None:
    entry, hub = entry_of(), Hub(server.endpoint, cache)
    fetch(entry, store, hub=hub)
    path = cache / SNAPSHOT / "f/a.bin"
    path.write_bytes(DATA[:-1] + b"!")
    with pytest.raises(CheckpointError, match=rf"a\.bin \(a link to {path}\) has changed"):
        fetch(entry, store, hub=hub)
    with pytest.raises(FetchError, match=rf"not deleted: {path} has .*hf cache rm model/o/r"):
        fetch(entry, store, hub=hub, repair=True)
    assert path.exists()
    path.resolve().unlink()
    path.unlink()
    fetch(entry, store, hub=hub)
    store.verify(entry)


def test_a_truncated_file_is_called_truncated_offline_and_downloaded_again_online(
    server: LocalHub, store: ModelStore, cache: Path
) -> None:
    entry, hub = entry_of(), Hub(server.endpoint, cache)
    path = store.directory("m") / "a.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA[:1000])
    with pytest.raises(FetchError) as error:
        fetch(entry, store, hub=hub, offline=True)
    reason = f"{path} is truncated: it has 1,000 of 4,000 bytes"
    fix = "run `antiphon pull m` while online"
    assert str(error.value) == f"m: {reason}, and downloads are off: {fix}"
    seen: list[FetchProgress] = []
    fetch(entry, store, hub=hub, progress=seen.append)
    assert notices(seen) == [f"{reason}; downloading it again"]
    store.verify(entry)


@pytest.mark.skipif(
    tuple(map(int, huggingface_hub.__version__.split(".")[:2])) < (1, 20),
    reason="older versions of the library resume only when the download is started again",
)
def test_a_broken_connection_is_resumed(store: ModelStore, cache: Path) -> None:
    data = os.urandom(24 << 20)
    with local_hub({NAME: data}) as server:
        server.break_after = 1
        fetch(entry_of(data), store, hub=Hub(server.endpoint, cache))
    store.verify(entry_of(data))
    first, second = (span for method, path, span, _ in server.requests if method == "GET" and "/resolve/" in path)
    assert first is None
    assert second is not None and 0 < int(second.removeprefix("bytes=").rstrip("-")) <= len(data) // 2


@pytest.mark.parametrize("with_length", [True, False])
def test_a_server_that_sends_more_than_it_announced_is_cut_off(
    server: LocalHub, store: ModelStore, cache: Path, with_length: bool
) -> None:
    server.lie, server.with_length = True, with_length
    with pytest.raises(FetchError, match=r"sent more than the 4,000 bytes of f/a\.bin: the download was stopped"):
        fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    assert server.sent_bytes < ENDLESS_BYTES / 4
    assert no_half_file(cache)
    assert files_under(store.home) == {"locks/m.lock"}


def test_a_file_of_another_size_on_the_hub_is_not_downloaded(server: LocalHub, store: ModelStore, cache: Path) -> None:
    with pytest.raises(FetchError, match=r"f/a\.bin has changed on the hub \(4,000 bytes, .*; expected 10 bytes, "):
        fetch(entry_of(b"ten bytes!"), store, hub=Hub(server.endpoint, cache))
    assert server.downloads() == []


def test_another_file_of_the_same_size_on_the_hub_is_not_downloaded(
    server: LocalHub, store: ModelStore, cache: Path
) -> None:
    with pytest.raises(FetchError, match=r"f/a\.bin has changed on the hub"):
        fetch(entry_of(DATA[:-1] + b"!"), store, hub=Hub(server.endpoint, cache))
    assert server.downloads() == []


def test_wrong_bytes_from_the_hub_are_rejected_and_removed(server: LocalHub, store: ModelStore, cache: Path) -> None:
    server.sent[NAME] = DATA[:-1] + b"!"
    with pytest.raises(FetchError, match=r"a\.bin came with .* sha256 \w{12}… where .* sha256 \w{12}… are expected"):
        fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    assert no_half_file(cache)
    assert files_under(store.home) == {"locks/m.lock"}
    server.sent.clear()
    fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    store.verify(entry_of())


def test_a_file_that_ends_too_early_is_rejected_and_removed(server: LocalHub, store: ModelStore, cache: Path) -> None:
    server.sent[NAME] = DATA[:100]
    with pytest.raises(FetchError, match=r"m: cannot download a\.bin: "):
        fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    assert no_half_file(cache)
    assert files_under(store.home) == {"locks/m.lock"}


def test_the_users_token_is_sent(
    server: LocalHub, store: ModelStore, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    assert {token for _, path, _, token in server.requests if path != "/"} == {"Bearer hf_secret"}


@pytest.mark.parametrize(
    ("status", "code", "complaint"),
    [
        (401, "GatedRepo", "o/r is a gated repository: accept its terms at .*/o/r, then set HF_TOKEN or run `hf auth"),
        (403, "", "has no repository o/r, or you have no access to it.*set HF_TOKEN or run `hf auth login`"),
        (401, "RepoNotFound", "has no repository o/r, or you have no access to it: check the name"),
        (404, "RevisionNotFound", "o/r on .* has no revision main"),
        (500, "", "answered 500 for o/r"),
    ],
)
def test_a_hub_that_rejects_a_request_is_a_plain_sentence(
    server: LocalHub, store: ModelStore, cache: Path, status: int, code: str, complaint: str
) -> None:
    server.status, server.error_code = status, code
    with pytest.raises(FetchError, match=complaint) as error:
        fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    assert "\n" not in str(error.value)


def test_a_file_that_the_repository_lacks(server: LocalHub, store: ModelStore, cache: Path) -> None:
    entry = model_entry("m", model_file("b.bin", DATA, HubSource("o/r", "b.bin")))
    with pytest.raises(FetchError, match=r"o/r on .* has no file b\.bin"):
        fetch(entry, store, hub=Hub(server.endpoint, cache))


def test_a_pinned_revision_is_asked_for(server: LocalHub, store: ModelStore, cache: Path) -> None:
    hub = Hub(server.endpoint, cache)
    fetch(model_entry("m", model_file("a.bin", DATA, HubSource("o/r", "f/a.bin", COMMIT))), store, hub=hub)
    with pytest.raises(FetchError, match=r"o/r on .* has no revision v9"):
        fetch(model_entry("n", model_file("a.bin", DATA[:-1], HubSource("o/r", "f/a.bin", "v9"))), store, hub=hub)


def test_the_hubs_own_offline_switch_leaves_mirrors(
    server: LocalHub, store: ModelStore, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[FetchProgress] = []
    entry = entry_of(DATA, mirror(Registries(tmp_path / "packages", monkeypatch)))
    fetch(entry, store, hub=Hub(server.endpoint, cache, is_off=True), progress=seen.append)
    assert notices(seen)[0].startswith("HF_HUB_OFFLINE is set, so the model hub is not contacted. The same files are ")
    assert server.requests == []


def test_a_full_cache_disk_is_named(
    server: LocalHub, store: ModelStore, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10**12, 10**12 - 100, 100))
    with pytest.raises(
        FetchError, match=rf"in the Hugging Face cache {cache}, which has 0 MB free: .*set HF_HUB_CACHE"
    ):
        fetch(entry_of(), store, hub=Hub(server.endpoint, cache))
    assert server.downloads() == []


def test_a_cache_that_cannot_be_written_is_named(server: LocalHub, store: ModelStore, cache: Path) -> None:
    cache.write_text("in the way")
    with pytest.raises(FetchError, match=rf"cannot write to the Hugging Face cache {cache} \(.*\): set HF_HUB_CACHE"):
        fetch(entry_of(), store, hub=Hub(server.endpoint, cache))


def test_an_unreachable_hub_is_asked_once_in_a_while_and_given_up_quickly(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    calls: list[bool] = []
    over = threading.Event()

    class Hanging:
        def head(self, *_: object, **__: object) -> None:
            calls.append(True)
            over.wait(30)
            raise OSError("nobody there")

    monkeypatch.setattr("antiphon.weights.catalog.hub.REACH_SECONDS", 0.2)
    monkeypatch.setattr("huggingface_hub.utils.get_session", Hanging)
    hub = Hub("http://hub.invalid", cache)
    for _ in range(3):
        with pytest.raises(
            HubUnreachableError, match=r"the model hub http://hub\.invalid is not reachable \(no answer within 0 s\)"
        ):
            hub.files("o/r")
    assert len(calls) == 1
    # Of this module alone: the clock of the process belongs to every event loop in it.
    monkeypatch.setattr("antiphon.weights.catalog.hub.time", SimpleNamespace(monotonic=lambda: 1e12))
    with pytest.raises(HubUnreachableError):
        hub.files("o/r")
    assert len(calls) == 2
    over.set()
