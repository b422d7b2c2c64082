"""What a user may call a model, and what comes of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from antiphon.errors import CheckpointError, FetchError, ModelNotFoundError
from antiphon.weights.catalog import find_entry
from antiphon.weights.hub import Hub
from antiphon.weights.resolve import resolve
from antiphon.weights.store import ModelStore
from support.registries import Registries, local_hub


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home")


def sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)


def place(store: ModelStore, name: str) -> None:
    entry = find_entry(name)
    for file in entry.files:
        sparse(store.path(entry, file), file.size)


def test_a_catalog_name_gives_its_main_file(store: ModelStore) -> None:
    place(store, "stories-15m")
    model = resolve("stories-15m", offline=True, store=store)
    assert (model.name, model.format) == ("stories-15m", "llama2c")
    assert model.path == store.directory("stories-15m") / "stories15M.bin"
    assert set(model.files) == {"stories15M.bin", "tokenizer.bin"}
    assert model.entry is find_entry("stories-15m")


def test_a_catalog_model_in_a_folder_gives_the_folder(store: ModelStore) -> None:
    place(store, "all-minilm-l6-v2")
    model = resolve("all-MiniLM-L6-v2", offline=True, store=store)
    assert (model.path, model.format) == (store.directory("all-minilm-l6-v2"), "hf")


def test_offline_refuses_what_is_not_here(store: ModelStore) -> None:
    with pytest.raises(FetchError, match="antiphon pull smollm2-135m"):
        resolve("smollm2-135m", offline=True, store=store)
    with pytest.raises(FetchError, match="hub:o/r is not on this machine"):
        resolve("hub:o/r", offline=True, store=store)


def test_an_unknown_name_is_refused_with_near_ones(store: ModelStore) -> None:
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


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CheckpointError, match=r"notes\.txt is no model file"):
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
    with pytest.raises(ModelNotFoundError, match="not a model"):
        resolve(str(folder))
    (folder / "model.safetensors").write_bytes(b"w")
    with pytest.raises(ModelNotFoundError, match=r"has no config\.json"):
        resolve(str(folder))
    (folder / "config.json").write_text("{}")
    model = resolve(str(folder))
    assert (model.name, model.format, model.path) == ("my-model", "hf", folder)
    gguf = tmp_path / "gguf"
    gguf.mkdir()
    (gguf / "a.gguf").write_bytes(b"GGUF")
    assert resolve(str(gguf)).path == gguf / "a.gguf"


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


def test_hub_references(store: ModelStore) -> None:
    with local_hub(HUB_FILES) as server:
        hub = Hub(server.endpoint)
        folder = resolve("hub:o/folder", store=store, hub=hub)
        assert folder.format == "hf" and set(folder.files) == {"config.json", "tokenizer.json", "model.safetensors"}
        assert folder.files["model.safetensors"].read_bytes() == b"weights"
        assert resolve("hub:o/ggufs", store=store, hub=hub).path.read_bytes() == b"GGUF4"
        assert resolve("hub:o/ggufs:m-q2_k.gguf", store=store, hub=hub).path.read_bytes() == b"GGUF2"
        assert len(resolve("hub:o/split", store=store, hub=hub).files) == 2
        with pytest.raises(ModelNotFoundError, match=r"holds 2 GGUF files.*hub:o/others:m-q2_k\.gguf"):
            resolve("hub:o/others", store=store, hub=hub)
        with pytest.raises(ModelNotFoundError, match="holds 0 GGUF files"):
            resolve("hub:o/none", store=store, hub=hub)
        with pytest.raises(ModelNotFoundError, match=r"o/none on .* has no file m\.gguf"):
            resolve("hub:o/none:m.gguf", store=store, hub=hub)
    again = resolve("hub:o/folder", offline=True, store=store)
    assert again == folder
    store.remove("hub:o/folder")
    with pytest.raises(FetchError):
        resolve("hub:o/folder", offline=True, store=store)


def test_a_hub_file_is_checked_against_the_hubs_own_sum(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_hub({"o/r/a.gguf": b"GGUF"}) as server:
        listing = server.listing("o/r")
        listing["siblings"][0]["lfs"]["sha256"] = hashlib.sha256(b"other").hexdigest()  # type: ignore[index]
        monkeypatch.setattr(server, "listing", lambda repository: listing)
        with pytest.raises(FetchError, match=r"a\.gguf has sha256 "):
            resolve("hub:o/r", store=store, hub=Hub(server.endpoint))
    assert not store.directory("hub:o/r").exists()


@pytest.mark.parametrize("reference", ["hub:", "hub:only-one", "hub:a/b/c", "hub:../..:x", "hub:o/r:"])
def test_malformed_hub_references(store: ModelStore, reference: str) -> None:
    with pytest.raises((ModelNotFoundError, FetchError)):
        resolve(reference, store=store, hub=Hub("http://127.0.0.1:9"))


def test_a_hub_file_name_cannot_leave_its_folder(store: ModelStore) -> None:
    with local_hub({"o/r/../../evil.gguf": b"GGUF"}) as server, pytest.raises(ModelNotFoundError, match="evil"):
        resolve("hub:o/r:../../evil.gguf", store=store, hub=Hub(server.endpoint))


def test_a_name_is_fetched_by_resolving_it(tmp_path: Path, store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    Registries(tmp_path / "packages", monkeypatch)
    with pytest.raises(FetchError, match=r"package silero-vad==6\.2\.3 is not in the configured pip index"):
        resolve("silero-vad", store=store)
