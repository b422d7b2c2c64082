"""Resolution of a model reference to files on this machine.

A reference is a catalog name, a path to a model file or folder, or `hub:owner/repository[@revision][:file]`.
`name:file` selects a model of a catalog entry with several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon import environment
from antiphon.errors import ModelNotFoundError
from antiphon.weights.catalog.catalog import ModelEntry, catalog, find_entry
from antiphon.weights.catalog.fetch import ProgressCallback, fetch
from antiphon.weights.catalog.hub import Hub, default_hub
from antiphon.weights.catalog.hub_models import ListedModel, listed_entry, listed_reference
from antiphon.weights.catalog.model_files import (
    CTRANSLATE2_FORMAT,
    is_first_split,
    sniff_format,
    split_names,
)
from antiphon.weights.catalog.references import FORMAT_OF_SUFFIX, HUB_PREFIX, unknown_model
from antiphon.weights.catalog.store import ModelStore

#: Files beside a Whisper model file that may hold its vocabulary.
WHISPER_FILES = ("tokenizer.json", "config.json", "gpt2.tiktoken", "multilingual.tiktoken")


@dataclass(frozen=True)
class ResolvedModel:
    """A model whose files are all on this machine.

    `format` names the loader: "gguf", "hf" (a folder), "llama2c", "openai-whisper", "ggml-whisper",
    "ctranslate2-whisper", "onnx" or "safetensors". `path` is the folder for "hf" and the main file otherwise. `entry`
    is the catalog's, or None for a model outside the catalog.
    """

    name: str
    format: str
    path: Path
    files: Mapping[str, Path]
    entry: ModelEntry | None


def resolve(
    reference: str,
    *,
    offline: bool = False,
    progress: ProgressCallback | None = None,
    store: ModelStore | None = None,
    hub: Hub | None = None,
    repair: bool = False,
    every_byte: bool = False,
) -> ResolvedModel:
    """Return the model that `reference` names, downloaded if files are missing, unless `offline`.

    The bytes of a downloaded model are verified before it is used (see `fetch` for `repair` and `every_byte`); files
    and folders of the user are not verified.
    """
    store = store or ModelStore.default()
    hub = hub or default_hub()
    offline = offline or environment.offline()

    def complete(entry: ModelEntry) -> None:
        fetch(entry, store, offline=offline, progress=progress, hub=hub, repair=repair, every_byte=every_byte)

    def complete_listed(listed: ListedModel) -> ModelEntry:
        """Complete a model with the files that the hub lists, and record them; the record is used from then on."""
        complete(listed.entry)
        stored = _with_sniffed_format(listed.entry, store)
        hub.cache.set_revision(listed.listing.repository, listed.revision, listed.listing.commit)
        store.record(stored)
        return stored

    def complete_entry(entry: ModelEntry) -> ModelEntry:
        pinned = store.pinned(entry)
        if not pinned.is_pinned:
            return complete_listed(listed_entry(entry, hub, offline))
        complete(pinned)
        return pinned

    if reference.startswith(HUB_PREFIX):
        stored = store.recorded(reference)
        if stored is None:
            stored = complete_listed(listed_reference(reference, hub, offline))
        else:
            complete(stored)
        return _resolved(stored, store, None)
    if reference.lower() in catalog():
        entry = complete_entry(find_entry(reference))
        return _resolved(entry, store, entry)
    name, _, file = reference.partition(":")
    if file and name.lower() in catalog():
        entry = store.pinned(find_entry(name))
        if all(file != listed.name for listed in entry.files):
            raise ModelNotFoundError(f"model {entry.name!r} has no file {file!r}")
        entry = complete_entry(entry)
        return replace(_resolve_file(store.directory(entry.name) / file), name=reference, entry=entry)
    path = Path(reference).expanduser()
    if path.is_dir():
        return _resolve_folder(path)
    if path.is_file():
        return _resolve_file(path)
    if path.suffix in FORMAT_OF_SUFFIX or "/" in reference:
        raise ModelNotFoundError(f"there is no model at {reference}")
    raise unknown_model(reference)


def _with_sniffed_format(entry: ModelEntry, store: ModelStore) -> ModelEntry:
    """Return a complete model with the format of its main file: suffixes such as `.bin` stand for several formats."""
    if entry.format == "hf":
        return entry
    return replace(entry, format=sniff_format(store.directory(entry.name) / entry.main))


def _resolved(stored: ModelEntry, store: ModelStore, entry: ModelEntry | None) -> ResolvedModel:
    folder = store.directory(stored.name)
    files = {file.name: folder / file.name for file in stored.files}
    path = folder if stored.format == "hf" else folder / stored.main
    return ResolvedModel(stored.name, stored.format, path, files, entry)


def _resolve_folder(path: Path) -> ResolvedModel:
    files = {item.relative_to(path).as_posix(): item for item in sorted(path.rglob("*")) if item.is_file()}
    weights = [name for name in files if name.endswith(".safetensors")]
    if "config.json" in files and weights:
        return ResolvedModel(path.resolve().name, "hf", path, files, None)
    if "model.bin" in files and not weights and sniff_format(path / "model.bin") == CTRANSLATE2_FORMAT:
        return ResolvedModel(path.resolve().name, CTRANSLATE2_FORMAT, path / "model.bin", files, None)
    models = [item for name, item in files.items() if name.endswith(".gguf") and is_first_split(name)]
    if len(models) == 1:
        return _resolve_file(models[0])
    if weights:
        raise ModelNotFoundError(f"{path} has .safetensors files but no config.json: not a complete model")
    if models:
        names = ", ".join(item.name for item in models)
        raise ModelNotFoundError(f"{path} contains {len(models)} models: name one of its files ({names})")
    raise ModelNotFoundError(f"{path} contains no model (no .safetensors or .gguf files)")


def _resolve_file(path: Path) -> ResolvedModel:
    format_ = sniff_format(path)
    names = [path.name]
    if format_ == "gguf":
        names = split_names(path.name)
    elif format_ == "llama2c":
        names.append("tokenizer.bin")
    elif format_.endswith("-whisper"):
        names += WHISPER_FILES
    elif format_ == "onnx":
        names += ["config.json", "vocab.json", f"{path.stem}.json"]
        names += sorted(f"voices/{voice.name}" for voice in path.parent.glob("voices/*.bin"))
    siblings = {name: path.parent / name for name in names}
    files = {name: sibling for name, sibling in siblings.items() if sibling.is_file()}
    if format_ == "gguf" and len(files) < len(names):
        absent = next(name for name in names if name not in files)
        raise ModelNotFoundError(f"{path} is one of {len(names)} files of its model, and {absent} is not beside it")
    return ResolvedModel(path.stem, format_, path.parent / names[0], files, None)
