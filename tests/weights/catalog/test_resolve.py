"""What a user may call a model, and what comes of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from antiphon.errors import CheckpointError, FetchError, ModelNotFoundError
from antiphon.weights.catalog.catalog import find_entry
from antiphon.weights.catalog.hub import Hub
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.catalog.store import ModelStore
from antiphon.weights.catalog.verified import Stamp
from support.fetching.registries import COMMIT, Registries, local_hub, put_in_cache


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hugging Face cache of the test's own; the user's may hold any model."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)


def place(store: ModelStore, name: str) -> None:
    """Files of a catalog model that have its sizes, and count as verified."""
    entry = find_entry(name)
    for file in entry.files:
        path = store.path(entry, file)
        sparse(path, file.size)
        store.verified(name).update({file.name: Stamp.of(path, file.sha256 or "")})


def test_a_catalog_name_gives_its_main_file(store: ModelStore) -> None:
    place(store, "stories-15m")
    model = resolve("stories-15m", offline=True, store=store)
    assert (model.name, model.format) == ("stories-15m", "llama2c")
    assert model.path == store.directory("stories-15m") / "stories15M.bin"
    assert set(model.files) == {"stories15M.bin", "tokenizer.bin"}
    assert model.entry is find_entry("stories-15m")


def test_one_of_several_models_in_an_entry_is_named_by_its_file(store: ModelStore) -> None:
    place(store, "english-phonemes")
    model = resolve("english-phonemes:oov_gb.onnx", offline=True, store=store)
    assert (model.name, model.format) == ("english-phonemes:oov_gb.onnx", "onnx")
    assert model.path == store.directory("english-phonemes") / "oov_gb.onnx"
    assert set(model.files) == {"oov_gb.onnx", "oov_gb.json"}
    with pytest.raises(ModelNotFoundError, match=r"'english-phonemes' has no file 'x.onnx'"):
        resolve("english-phonemes:x.onnx", offline=True, store=store)


def test_a_catalog_model_in_a_folder_gives_the_folder(store: ModelStore) -> None:
    place(store, "all-minilm-l6-v2")
    model = resolve("all-MiniLM-L6-v2", offline=True, store=store)
    assert (model.path, model.format) == (store.directory("all-minilm-l6-v2"), "hf")


def test_offline_rejects_what_is_not_downloaded(store: ModelStore) -> None:
    with pytest.raises(FetchError, match="antiphon pull smollm2-135m"):
        resolve("smollm2-135m", offline=True, store=store)
    with pytest.raises(
        FetchError, match="hub:o/r is not downloaded, and downloads are off: run `antiphon pull hub:o/r`"
    ):
        resolve("hub:o/r", offline=True, store=store, hub=Hub("http://127.0.0.1:9", store.home / "cache"))


def test_an_unknown_name_is_rejected_with_near_ones(store: ModelStore) -> None:
    with pytest.raises(ModelNotFoundError, match=r"no model is called 'stories15m': did you mean stories-15m"):
        resolve("stories15m", store=store)


@pytest.mark.parametrize("reference", ["missing.gguf", "some/folder"])
def test_a_path_that_leads_nowhere(store: ModelStore, reference: str) -> None:
    with pytest.raises(ModelNotFoundError, match=f"there is no model at {reference}"):
        resolve(reference, store=store)


@pytest.mark.parametrize(
    ("name", "head", "format_"),
    [
        ("a.gguf", b"GGUF", "gguf"),
        ("named-oddly", b"GGUF", "gguf"),
        ("ggml-x.bin", b"lmgg", "ggml-whisper"),
        ("stories.bin", b"\x20\x01\x00\x00", "llama2c"),
        ("tiny.pt", b"PK\x03\x04", "openai-whisper"),
    ],
)
def test_a_single_file_is_known_by_its_first_bytes_or_suffix(
    tmp_path: Path, name: str, head: bytes, format_: str
) -> None:
    (tmp_path / name).write_bytes(head + b"rest")
    (tmp_path / "tokenizer.bin").write_bytes(b"t")
    model = resolve(str(tmp_path / name))
    assert (model.format, model.path, model.entry) == (format_, tmp_path / name, None)
    assert set(model.files) == ({name, "tokenizer.bin"} if format_ == "llama2c" else {name})


def test_a_file_that_is_no_model_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CheckpointError, match=r"notes\.txt is not a recognised model file"):
        resolve(str(tmp_path / "notes.txt"))


def test_a_split_gguf_brings_all_its_files_or_names_the_missing_one(tmp_path: Path) -> None:
    names = [f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for name in names:
        (tmp_path / name).write_bytes(b"GGUF")
    model = resolve(str(tmp_path / names[1]))
    assert list(model.files) == names and model.path == tmp_path / names[0]
    (tmp_path / names[2]).unlink()
    with pytest.raises(ModelNotFoundError, match=r"one of 3 files of its model, and m-00003-of-00003\.gguf"):
        resolve(str(tmp_path / names[0]))


def test_folders(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    with pytest.raises(ModelNotFoundError, match=r"contains no model \(no \.safetensors or \.gguf files\)"):
        resolve(str(folder))
    (folder / "model.safetensors").write_bytes(b"w")
    with pytest.raises(ModelNotFoundError, match=r"has \.safetensors files but no config\.json"):
        resolve(str(folder))
    (folder / "config.json").write_text("{}")
    model = resolve(str(folder))
    assert (model.name, model.format, model.path) == ("my-model", "hf", folder)
    gguf = tmp_path / "gguf"
    gguf.mkdir()
    (gguf / "a.gguf").write_bytes(b"GGUF")
    assert resolve(str(gguf)).path == gguf / "a.gguf"
    (gguf / "b.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelNotFoundError, match=r"contains 2 models: name one of its files \(a\.gguf, b\.gguf\)"):
        resolve(str(gguf))


HUB_FILES = {
    "o/folder/config.json": b"{}",
    "o/folder/tokenizer.json": b"{} ",
    "o/folder/model.safetensors": b"weights",
    "o/folder/consolidated.safetensors": b"the same again",
    "o/folder/README.md": b"readme",
    "o/ggufs/m-q2_k.gguf": b"GGUF2",
    "o/ggufs/m-Q4_K_M.gguf": b"GGUF4",
    "o/others/m-q2_k.gguf": b"GGUF2",
    "o/others/m-q8_0.gguf": b"GGUF8",
    "o/split/m-00001-of-00002.gguf": b"GGUF1",
    "o/split/m-00002-of-00002.gguf": b"GGUF2",
    "o/none/README.md": b"readme",
}


def test_hub_references(store: ModelStore, cache: Path) -> None:
    with local_hub(HUB_FILES) as server:
        hub = Hub(server.endpoint, cache)
        folder = resolve("hub:o/folder", store=store, hub=hub)
        assert folder.format == "hf" and set(folder.files) == {"config.json", "tokenizer.json", "model.safetensors"}
        assert folder.files["model.safetensors"].read_bytes() == b"weights"
        assert resolve("hub:o/ggufs", store=store, hub=hub).path.read_bytes() == b"GGUF4"
        assert resolve("hub:o/ggufs:m-q2_k.gguf", store=store, hub=hub).path.read_bytes() == b"GGUF2"
        assert resolve(f"hub:o/ggufs@{COMMIT}:m-q2_k.gguf", store=store, hub=hub).path.read_bytes() == b"GGUF2"
        assert len(resolve("hub:o/split", store=store, hub=hub).files) == 2
        with pytest.raises(ModelNotFoundError, match=r"holds 2 GGUF files.*hub:o/others:m-q2_k\.gguf"):
            resolve("hub:o/others", store=store, hub=hub)
        with pytest.raises(ModelNotFoundError, match="holds 0 GGUF files"):
            resolve("hub:o/none", store=store, hub=hub)
        with pytest.raises(ModelNotFoundError, match=r"o/none on .* has no file m\.gguf"):
            resolve("hub:o/none:m.gguf", store=store, hub=hub)
        with pytest.raises(FetchError, match=r"o/ggufs on .* has no revision v2"):
            resolve("hub:o/ggufs@v2", store=store, hub=hub)
    dead = Hub("http://127.0.0.1:9", cache)
    again = resolve("hub:o/folder", offline=True, store=store, hub=dead)
    assert again == folder
    store.remove("hub:o/folder")
    with pytest.raises(FetchError, match=r"hub:o/folder is not downloaded, and downloads are off"):
        resolve("hub:o/folder", offline=True, store=store, hub=dead)
    with pytest.raises(FetchError, match=r"hub:o/folder is not downloaded, and the model hub .* is not reachable \("):
        resolve("hub:o/folder", store=store, hub=dead)


def in_repository(name: str) -> dict[str, bytes]:
    return {path.removeprefix(f"{name}/"): data for path, data in HUB_FILES.items() if path.startswith(f"{name}/")}


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("name", ["o/folder", "o/ggufs", "o/split"])
def test_a_repository_in_the_hugging_face_cache_needs_no_hub(
    store: ModelStore, cache: Path, name: str, offline: bool, links: bool
) -> None:
    snapshot = put_in_cache(cache, name, in_repository(name), links=links)
    model = resolve(f"hub:{name}", store=store, hub=Hub("http://127.0.0.1:9", cache), offline=offline)
    assert {path.readlink().parent for path in model.files.values()} == {snapshot}
    assert [entry.name for entry in store.recorded_entries()] == [f"hub:{name}"]


def test_a_gated_repository_that_is_in_the_cache_needs_no_token(store: ModelStore, cache: Path) -> None:
    put_in_cache(cache, "o/folder", in_repository("o/folder"))
    with local_hub(HUB_FILES) as server:
        server.status, server.error_code = 401, "GatedRepo"
        assert resolve("hub:o/folder", store=store, hub=Hub(server.endpoint, cache)).format == "hf"
        with pytest.raises(FetchError, match="o/ggufs is a gated repository"):
            resolve("hub:o/ggufs", store=store, hub=Hub(server.endpoint, cache))


def test_a_small_file_of_another_revision_is_not_taken_for_this_one(store: ModelStore, cache: Path) -> None:
    """The hub lists no sha256 for it, and both have the same size."""
    old = put_in_cache(cache, "o/folder", {**in_repository("o/folder"), "config.json": b"[]"}, links=False)
    old.rename(old.with_name("d" * 40))
    with local_hub(HUB_FILES) as server:
        model = resolve("hub:o/folder", store=store, hub=Hub(server.endpoint, cache))
    assert model.files["config.json"].read_bytes() == b"{}"


def test_a_repository_that_is_only_partly_in_the_cache_is_not_used(store: ModelStore, cache: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    files = {
        "config.json": b"{}",
        "model.safetensors.index.json": json.dumps(index).encode(),
        "model-00001-of-00002.safetensors": b"weights",
    }
    hub = Hub("http://127.0.0.1:9", cache)
    put_in_cache(cache, "o/r", files)
    with pytest.raises(FetchError, match="hub:o/r is not downloaded"):
        resolve("hub:o/r", store=store, hub=hub)
    put_in_cache(cache, "o/r", {"model-00002-of-00002.safetensors": b"more"})
    assert len(resolve("hub:o/r", store=store, hub=hub).files) == 4


def test_a_hub_model_whose_files_were_deleted_from_the_cache_is_downloaded_again(
    store: ModelStore, cache: Path
) -> None:
    with local_hub(HUB_FILES) as server:
        hub = Hub(server.endpoint, cache)
        resolve("hub:o/ggufs", store=store, hub=hub)
        shutil.rmtree(cache)
        with pytest.raises(FetchError, match=r"hub:o/ggufs is not downloaded \(missing m-Q4_K_M\.gguf\)"):
            resolve("hub:o/ggufs", store=store, hub=hub, offline=True)
        assert resolve("hub:o/ggufs", store=store, hub=hub).path.read_bytes() == b"GGUF4"


def test_a_hub_file_is_checked_against_the_hubs_own_sum(store: ModelStore, cache: Path) -> None:
    with local_hub({"o/r/a.gguf": b"GGUF"}) as server:
        server.sent["o/r/a.gguf"] = b"evil"
        with pytest.raises(FetchError, match=r"a\.gguf came with 4 bytes and sha256 "):
            resolve("hub:o/r", store=store, hub=Hub(server.endpoint, cache))
    assert not store.directory("hub:o/r").exists()
    assert not list(cache.glob("models--*/snapshots/*/*"))


@pytest.mark.parametrize("reference", ["hub:", "hub:only-one", "hub:a/b/c", "hub:../..:x", "hub:o/r:", "hub:o/r@"])
def test_malformed_hub_references(store: ModelStore, cache: Path, reference: str) -> None:
    with pytest.raises((ModelNotFoundError, FetchError)):
        resolve(reference, store=store, hub=Hub("http://127.0.0.1:9", cache))


def test_a_hub_file_name_cannot_leave_its_folder(store: ModelStore, cache: Path) -> None:
    with local_hub({"o/r/../../evil.gguf": b"GGUF"}) as server, pytest.raises(ModelNotFoundError, match="evil"):
        resolve("hub:o/r:../../evil.gguf", store=store, hub=Hub(server.endpoint, cache))


def test_a_name_is_fetched_by_resolving_it(tmp_path: Path, store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    Registries(tmp_path / "packages", monkeypatch)
    with pytest.raises(FetchError, match=r"package silero-vad==6\.2\.3 is not in the configured pip index"):
        resolve("silero-vad", store=store)
