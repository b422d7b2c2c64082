"""Recommended models: their files are pinned by the hub's listing when they are downloaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.errors import FetchError
from antiphon.weights.catalog.catalog import HubSource, catalog, find_entry
from antiphon.weights.catalog.fetch import is_downloaded
from antiphon.weights.catalog.hub import Hub
from antiphon.weights.catalog.resolve import ResolvedModel, resolve
from antiphon.weights.catalog.store import MANIFEST, ModelStore
from support.fetching.registries import COMMIT, LocalHub, local_hub, put_in_cache

GGUF = b"GGUF" + b"weights of a model, " * 200
GGML = b"lmgg" + b"weights of a whisper, " * 200
CHAT, WHISPER, EMBEDDER = "qwen3-0.6b", "whisper-small", "bge-small-en-v1.5"
FOLDER = {
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": b"weights",
    "tokenizer.json": b"{}",
    "1_Pooling/config.json": b'{"pooling_mode_cls_token": true}',
    "pytorch_model.bin": b"the same weights",
    "onnx/model.onnx": b"the same weights",
}


def source_of(name: str) -> HubSource:
    (source,) = find_entry(name).files[0].sources
    assert isinstance(source, HubSource)
    return source


def path_of(name: str) -> str:
    return f"{source_of(name).repository}/{source_of(name).file}"


@pytest.fixture
def server() -> Iterator[LocalHub]:
    embedder = {f"{source_of(EMBEDDER).repository}/{name}": data for name, data in FOLDER.items()}
    with local_hub({path_of(CHAT): GGUF, path_of(WHISPER): GGML, **embedder}) as hub:
        yield hub


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def pull(name: str, server: LocalHub, store: ModelStore, cache: Path) -> ResolvedModel:
    return resolve(name, store=store, hub=Hub(server.endpoint, cache))


def files_under(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_hubs_size_and_digest_pin_the_file(server: LocalHub, store: ModelStore, cache: Path) -> None:
    assert not store.is_present(find_entry(CHAT)) and not is_downloaded(find_entry(CHAT), store)
    model = pull(CHAT.upper(), server, store, cache)
    assert (model.name, model.format, model.path.read_bytes()) == (CHAT, "gguf", GGUF)
    assert model.entry is not None and model.entry.task == "chat" and model.entry.is_pinned
    (file,) = model.entry.files
    assert (file.size, file.sha256) == (len(GGUF), hashlib.sha256(GGUF).hexdigest())
    assert file.sources == (HubSource(source_of(CHAT).repository, file.name, COMMIT),)
    assert store.is_present(find_entry(CHAT)) and is_downloaded(find_entry(CHAT), store)
    server.requests.clear()
    assert resolve(CHAT, store=store, hub=Hub("http://127.0.0.1:9", cache), offline=True) == model
    assert server.requests == []
    listed = {entry.name: entry for entry in store.entries()}
    assert list(listed) == list(catalog()) and listed[CHAT].size == len(GGUF)


def test_bytes_with_another_digest_are_rejected_and_not_kept(server: LocalHub, store: ModelStore, cache: Path) -> None:
    server.sent[path_of(CHAT)] = GGUF[:-1] + b"!"
    with pytest.raises(FetchError, match=rf"{CHAT}: .* came with .* where {len(GGUF):,} bytes and sha256 .* expected"):
        pull(CHAT, server, store, cache)
    assert files_under(store.home) == {f"locks/{CHAT}.lock"}
    assert not [path for path in cache.glob("models--*/**/*") if path.is_file()]
    server.sent.clear()
    assert pull(CHAT, server, store, cache).path.read_bytes() == GGUF


def test_small_files_are_compared_with_the_hubs_git_blob_id(server: LocalHub, store: ModelStore, cache: Path) -> None:
    name = f"{source_of(EMBEDDER).repository}/config.json"
    server.sent[name] = FOLDER["config.json"].replace(b"bert", b"trap")
    with pytest.raises(
        FetchError, match=r"config\.json came with 22 bytes and sha256 .* where .* git blob .* expected"
    ):
        pull(EMBEDDER, server, store, cache)
    assert not (store.directory(EMBEDDER) / "config.json").exists()


def test_a_folder_takes_every_file_that_its_loader_reads(server: LocalHub, store: ModelStore, cache: Path) -> None:
    model = pull(EMBEDDER, server, store, cache)
    assert (model.format, model.path) == ("hf", store.directory(EMBEDDER))
    assert set(model.files) == {"config.json", "model.safetensors", "tokenizer.json", "1_Pooling/config.json"}
    assert {name: path.read_bytes() for name, path in model.files.items()}.items() <= FOLDER.items()


def test_a_ggml_file_is_known_by_its_first_bytes(server: LocalHub, store: ModelStore, cache: Path) -> None:
    assert pull(WHISPER, server, store, cache).format == "ggml-whisper"
    source = source_of(WHISPER)
    by_reference = pull(f"hub:{source.repository}:{source.file}", server, store, cache)
    assert by_reference.format == "ggml-whisper", "the suffix alone says llama2.c"


def test_without_the_hub_the_error_names_a_mirrored_model(store: ModelStore, cache: Path) -> None:
    with pytest.raises(FetchError) as error:
        resolve(CHAT, store=store, hub=Hub("http://127.0.0.1:9", cache))
    text = str(error.value)
    assert text.startswith(f"{CHAT} is only on the model hub, and the model hub http://127.0.0.1:9 is not reachable (")
    assert text.endswith(
        f"): run `antiphon pull {CHAT}` while online, or use qwen2.5-coder-0.5b, which package mirrors have"
    )
    with pytest.raises(FetchError, match=r"HF_HUB_OFFLINE is set, .* or use whisper-base\.en, which package mirrors"):
        resolve(WHISPER, store=store, hub=Hub("http://127.0.0.1:9", cache, is_off=True))
    with pytest.raises(
        FetchError, match=rf"^{CHAT} is not downloaded, and downloads are off: run `antiphon pull {CHAT}"
    ):
        resolve(CHAT, store=store, hub=Hub("http://127.0.0.1:9", cache), offline=True)
    assert not store.home.exists()


def test_a_file_of_the_hugging_face_cache_is_used_without_the_hub(store: ModelStore, cache: Path) -> None:
    put_in_cache(cache, source_of(CHAT).repository, {source_of(CHAT).file: GGUF})
    model = resolve(CHAT, store=store, hub=Hub("http://127.0.0.1:9", cache), offline=True)
    assert model.path.read_bytes() == GGUF


def test_a_record_of_other_files_than_the_catalogs_is_not_used(
    server: LocalHub, store: ModelStore, cache: Path
) -> None:
    """A later catalog may recommend another file under the same name."""
    pull(CHAT, server, store, cache)
    manifest = store.directory(CHAT) / MANIFEST
    recorded = json.loads(manifest.read_text())
    recorded["main"] = recorded["files"][0]["name"] = "older.gguf"
    manifest.write_text(json.dumps(recorded))
    assert not store.pinned(find_entry(CHAT)).is_pinned and not store.is_present(find_entry(CHAT))
    assert pull(CHAT, server, store, cache).path.name == source_of(CHAT).file
    assert store.is_present(find_entry(CHAT))
