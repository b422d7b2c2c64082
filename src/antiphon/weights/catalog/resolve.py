"""Resolution of a model reference to files on this machine.

A reference is a catalog name, a path to a model file or folder, or `hub:owner/repository[@revision][:file]`.
`name:file` selects a model of a catalog entry with several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon import environment
from antiphon.errors import CheckpointError, FetchError, ModelNotFoundError
from antiphon.regular_file import open_regular
from antiphon.weights.catalog.catalog import HubSource, ModelEntry, ModelFile, catalog, check_relative, find_entry
from antiphon.weights.catalog.fetch import ProgressCallback, fetch
from antiphon.weights.catalog.hub import MAIN, Hub, HubFile, HubListing, HubUnreachableError, default_hub
from antiphon.weights.catalog.hub_cache import blob_sha256
from antiphon.weights.catalog.references import FORMAT_OF_SUFFIX, HUB_FORM, HUB_PREFIX, unknown_model
from antiphon.weights.catalog.store import ModelStore
from antiphon.weights.json_object import read_json_object

HUB_REFERENCE = re.compile(
    r"hub:(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<file>[^\x00-\x1f]+))?", re.ASCII
)
SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
#: Files beside a Whisper model file that may hold its vocabulary.
WHISPER_FILES = ("tokenizer.json", "config.json", "gpt2.tiktoken", "multilingual.tiktoken")
INDEX_FILE = "model.safetensors.index.json"
FOLDER_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    INDEX_FILE,
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)


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

    if reference.startswith(HUB_PREFIX):
        stored = store.recorded(reference)
        if stored is None:
            stored, listing, revision = _hub_entry(reference, hub, offline)
            complete(stored)
            hub.cache.set_revision(listing.repository, revision, listing.commit)
            store.record(stored)
        else:
            complete(stored)
        return _resolved(stored, store, None)
    if reference.lower() in catalog():
        entry = find_entry(reference)
        complete(entry)
        return _resolved(entry, store, entry)
    name, _, file = reference.partition(":")
    if file and name.lower() in catalog():
        entry = find_entry(name)
        if all(file != listed.name for listed in entry.files):
            raise ModelNotFoundError(f"model {entry.name!r} has no file {file!r}")
        complete(entry)
        return replace(_resolve_file(store.directory(entry.name) / file), name=reference, entry=entry)
    path = Path(reference).expanduser()
    if path.is_dir():
        return _resolve_folder(path)
    if path.is_file():
        return _resolve_file(path)
    if path.suffix in FORMAT_OF_SUFFIX or "/" in reference:
        raise ModelNotFoundError(f"there is no model at {reference}")
    raise unknown_model(reference)


def sniff_format(path: Path) -> str:
    """Return the format of a model file: by its first bytes if they are known, else by its suffix."""
    try:
        with open_regular(path) as stream:
            start = stream.read(64)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    if start[:4] in FORMAT_OF_MAGIC:
        return FORMAT_OF_MAGIC[start[:4]]
    if start[6:].startswith(b"WhisperSpec"):
        return CTRANSLATE2_FORMAT
    try:
        return FORMAT_OF_SUFFIX[path.suffix]
    except KeyError:
        known = ", ".join(FORMAT_OF_SUFFIX)
        raise CheckpointError(f"{path} is not a recognised model file (known: {known})") from None


CTRANSLATE2_FORMAT = "ctranslate2-whisper"
FORMAT_OF_MAGIC = {b"GGUF": "gguf", b"lmgg": "ggml-whisper"}


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
    models = [item for name, item in files.items() if name.endswith(".gguf") and _is_first_split(name)]
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
        names = _split_names(path.name)
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


def _split_names(name: str) -> list[str]:
    """Return all file names of the split GGUF that `name` belongs to, or `name` alone if it is not split."""
    match = SPLIT_NAME.fullmatch(name)
    if match is None or int(match["count"]) > 10_000:
        return [name]
    return [f"{match['stem']}-{number + 1:05d}-of-{match['count']}.gguf" for number in range(int(match["count"]))]


def _is_first_split(name: str) -> bool:
    return _split_names(name)[0] == name


def _hub_entry(reference: str, hub: Hub, offline: bool) -> tuple[ModelEntry, HubListing, str]:
    """Return the model of a hub reference, its listing (from the hub, else from the cache), and its revision."""
    match = HUB_REFERENCE.fullmatch(reference)
    if match is None:
        raise ModelNotFoundError(f"{reference!r} does not have the form {HUB_FORM}")
    repository, revision = match["repository"], match["revision"] or MAIN
    try:
        if offline:
            raise HubUnreachableError("downloads are off")
        listing = hub.files(repository, revision)
    except FetchError as error:
        cached = _cached_listing(repository, revision, hub)
        if cached is not None:
            listing = cached
        elif isinstance(error, HubUnreachableError):
            fix = f"run `antiphon pull {reference}` while online"
            raise FetchError(f"{reference} is not downloaded, and {error}: {fix}") from error
        else:
            raise
    format_, names = _choose(reference, listing.files, match["file"])
    absent = [name for name in names if name not in listing.files]
    if absent:
        raise ModelNotFoundError(f"{repository} on {hub.endpoint} has no file {absent[0]}")
    try:
        for name in names:
            check_relative(name)
    except ValueError as error:
        raise ModelNotFoundError(f"{reference}: {error}") from error
    found = [listing.files[name] for name in names]
    files = tuple(
        ModelFile(file.name, file.size, file.sha256, (HubSource(repository, file.name, listing.commit),))
        for file in found
    )
    entry = ModelEntry(reference, reference, "completion", format_, "see the hub", names[0], files)
    return entry, listing, revision


def _cached_listing(repository: str, revision: str, hub: Hub) -> HubListing | None:
    """Return the files of a repository in the Hugging Face cache, or None without a complete set of weights."""
    folder = hub.cache.snapshot(repository, revision)
    if folder is None:
        return None
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    index = paths.get(INDEX_FILE)
    if index is not None:
        shards = set(read_json_object(index).get("weight_map", {}).values())
        if not shards <= set(paths):
            return None
    files = {name: HubFile(name, path.stat().st_size, blob_sha256(path)) for name, path in paths.items()}
    return HubListing(repository, folder.name, files)


def _choose(reference: str, listed: Mapping[str, HubFile], file: str | None) -> tuple[str, list[str]]:
    """Return the format of the model that `reference` names, and the names of its files, main file first."""
    if file is not None:
        return FORMAT_OF_SUFFIX.get(Path(file).suffix, "gguf"), _split_names(file)
    weights = [
        name
        for name in listed
        if name.endswith(".safetensors") and "/" not in name and not name.startswith("consolidated")
    ]
    if weights and "config.json" in listed:
        return "hf", [*(name for name in FOLDER_FILES if name in listed), *sorted(weights)]
    models = [name for name in listed if name.endswith(".gguf") and _is_first_split(name)]
    preferred = [name for name in models if "q4_k_m" in name.lower()] or models
    if len(preferred) != 1:
        choice = f": name one, as in {reference}:{models[0]} (there are {', '.join(models)})" if models else ""
        raise ModelNotFoundError(f"{reference} holds {len(models)} GGUF files and no safetensors folder{choice}")
    return "gguf", _split_names(preferred[0])
