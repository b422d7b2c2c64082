"""Models whose files the hub lists: those of `hub:owner/repository[@revision][:file]`, and unpinned catalog entries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon.errors import FetchError, ModelNotFoundError
from antiphon.weights.catalog.catalog import HubSource, ModelEntry, ModelFile, check_relative
from antiphon.weights.catalog.defaults import DEFAULT_MODELS
from antiphon.weights.catalog.hub import MAIN, Hub, HubFile, HubListing, HubUnreachableError
from antiphon.weights.catalog.hub_cache import blob_sha256
from antiphon.weights.catalog.model_files import is_first_split, split_names
from antiphon.weights.catalog.model_tasks import CATALOG_TASKS
from antiphon.weights.catalog.references import FORMAT_OF_SUFFIX, HUB_FORM
from antiphon.weights.json_object import read_json_object

HUB_REFERENCE = re.compile(
    r"hub:(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<file>[^\x00-\x1f]+))?", re.ASCII
)
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
class ListedModel:
    """A model with the files, sizes and sha256 that the hub lists, and the revision that was listed."""

    entry: ModelEntry
    listing: HubListing
    revision: str


def listed_reference(reference: str, hub: Hub, offline: bool) -> ListedModel:
    """Return the model of a hub reference, as the hub or else its cache lists it."""
    match = HUB_REFERENCE.fullmatch(reference)
    if match is None:
        raise ModelNotFoundError(f"{reference!r} does not have the form {HUB_FORM}")
    repository, revision = match["repository"], match["revision"] or MAIN
    try:
        listing = _listing(repository, revision, hub, offline)
    except HubUnreachableError as error:
        fix = f"run `antiphon pull {reference}` while online"
        raise FetchError(f"{reference} is not downloaded, and {error}: {fix}") from error
    format_, names = _choose(reference, listing.files, match["file"])
    files = _files(reference, listing, names, hub)
    entry = ModelEntry(reference, reference, "completion", format_, "see the hub", names[0], files)
    return ListedModel(entry, listing, revision)


def listed_entry(entry: ModelEntry, hub: Hub, offline: bool) -> ListedModel:
    """Return an unpinned entry of the catalog with the files that the hub or else its cache lists."""
    (source,) = (source for source in entry.files[0].sources if isinstance(source, HubSource))
    try:
        listing = _listing(source.repository, source.revision, hub, offline)
    except HubUnreachableError as error:
        fix = f"run `antiphon pull {entry.name}` while online"
        if offline:
            raise FetchError(f"{entry.name} is not downloaded, and {error}: {fix}") from error
        other = DEFAULT_MODELS.get(CATALOG_TASKS.get(entry.task, ""))
        instead = f", or use {other}, which package mirrors have" if other else ""
        raise FetchError(f"{entry.name} is only on the model hub, and {error}: {fix}{instead}") from error
    names = _choose(entry.name, listing.files, None)[1] if entry.format == "hf" else split_names(source.file)
    files = _files(entry.name, listing, names, hub)
    return ListedModel(replace(entry, files=files, is_pinned=True), listing, source.revision)


def _listing(repository: str, revision: str, hub: Hub, offline: bool) -> HubListing:
    """Return a repository's files from the hub, else from its cache; raise the hub's error if neither has them."""
    try:
        if offline:
            raise HubUnreachableError("downloads are off")
        return hub.files(repository, revision)
    except FetchError:
        cached = _cached_listing(repository, revision, hub)
        if cached is None:
            raise
        return cached


def _files(reference: str, listing: HubListing, names: list[str], hub: Hub) -> tuple[ModelFile, ...]:
    absent = [name for name in names if name not in listing.files]
    if absent:
        raise ModelNotFoundError(f"{listing.repository} on {hub.endpoint} has no file {absent[0]}")
    try:
        for name in names:
            check_relative(name)
    except ValueError as error:
        raise ModelNotFoundError(f"{reference}: {error}") from error
    return tuple(
        ModelFile(file.name, file.size, file.sha256, (HubSource(listing.repository, file.name, listing.commit),))
        for file in (listing.files[name] for name in names)
    )


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
        return FORMAT_OF_SUFFIX.get(Path(file).suffix, "gguf"), split_names(file)
    weights = [
        name
        for name in listed
        if name.endswith(".safetensors") and "/" not in name and not name.startswith("consolidated")
    ]
    if weights and "config.json" in listed:
        return "hf", [*(name for name in FOLDER_FILES if name in listed), *sorted(weights)]
    models = [name for name in listed if name.endswith(".gguf") and is_first_split(name)]
    preferred = [name for name in models if "q4_k_m" in name.lower()] or models
    if len(preferred) != 1:
        choice = f": name one, as in {reference}:{models[0]} (there are {', '.join(models)})" if models else ""
        raise ModelNotFoundError(f"{reference} holds {len(models)} GGUF files and no safetensors folder{choice}")
    return "gguf", split_names(preferred[0])
