"""The catalog of known models: data in `catalog.toml` and `recommended.toml`, parsed into frozen dataclasses."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from antiphon.errors import ModelNotFoundError

Task = Literal[
    "chat", "completion", "transcription", "speech", "embedding", "voice-activity", "end-of-turn", "phonemes"
]  # fmt: skip
Registry = Literal["pip", "npm"]

CATALOG_FILE = Path(__file__).with_name("catalog.toml")
#: Larger and newer models, which are only on the hub and were not run by this project.
RECOMMENDED_FILE = Path(__file__).with_name("recommended.toml")


@dataclass(frozen=True)
class HubSource:
    """A file of a repository on the model hub, at a branch, tag or commit."""

    repository: str
    file: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"hub repository {self.repository}"


@dataclass(frozen=True)
class Package:
    """An exact version of a package in a registry."""

    registry: Registry
    name: str
    version: str

    @property
    def registry_name(self) -> str:
        """The registry's usual name; the user's own pip or npm settings may use another index."""
        return "PyPI" if self.registry == "pip" else "npm"

    def __str__(self) -> str:
        return f"{self.name}{'==' if self.registry == 'pip' else '@'}{self.version}"


@dataclass(frozen=True)
class PackagePart:
    """The bytes from `start` to `stop` (None: to the end) of a member of a package's archive."""

    package: Package
    member: str
    start: int = 0
    stop: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.stop is None


@dataclass(frozen=True)
class PackageSource:
    """Parts of packages whose concatenation, in order, is the file."""

    parts: tuple[PackagePart, ...]

    def __str__(self) -> str:
        first, count = self.parts[0].package, len(self.parts)
        more = f" and {count - 1} more" if count > 1 else ""
        return f"package{'s' if more else ''} {first}{more} on {first.registry_name}"


Source = HubSource | PackageSource


@dataclass(frozen=True)
class ModelFile:
    """A file of a model.

    `sha256` is None for small files of the hub, which lists none for them, and for files of unpinned entries.
    """

    name: str
    size: int
    sha256: str | None
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class ModelEntry:
    """A model as a set of files. A loader, named by `format`, opens the file `main`.

    The files of an entry that `is_pinned` are exactly these. Otherwise only the file with the weights is listed, its
    size is approximate, and the hub's listing pins all files when the model is downloaded.
    """

    name: str
    title: str
    task: Task
    format: str
    licence: str
    main: str
    files: tuple[ModelFile, ...]
    #: A few words about what the model is good for; empty for detectors and models outside the catalog.
    use: str = ""
    is_pinned: bool = True
    #: Whether this project has run the model.
    is_tried: bool = True

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def needs_hub(self) -> bool:
        """Whether a file has no source but the hub."""
        return not all(any(isinstance(source, PackageSource) for source in file.sources) for file in self.files)


@cache
def catalog() -> Mapping[str, ModelEntry]:
    """Return all known models by name: those of `catalog.toml`, then those of `recommended.toml`."""
    return {**read_catalog(CATALOG_FILE), **read_catalog(RECOMMENDED_FILE)}


def find_entry(name: str, among: Iterable[str] | None = None) -> ModelEntry:
    """Return the entry of that name; the error for an unknown name suggests the nearest names in `among` or of all."""
    entry = catalog().get(name.lower())
    if entry is None:
        known = list(catalog() if among is None else among)
        near = near_names(name.lower(), known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known names: {', '.join(known)}"
        raise ModelNotFoundError(f"no model is called {name!r}: {hint}")
    return entry


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known names that begin with an unknown one or, if none does, are closest to it."""
    names = list(dict.fromkeys(known))
    begun = [each for each in names if each.startswith(name)]
    return begun[:3] or difflib.get_close_matches(name, names, n=3, cutoff=0.55)


def read_catalog(path: Path) -> dict[str, ModelEntry]:
    """Parse and check a catalog file; raise ValueError with the model's name and the fault."""
    with path.open("rb") as stream:
        tables = tomllib.load(stream)
    return {name: _entry(name, table) for name, table in tables.items()}


def _entry(name: str, table: dict[str, Any]) -> ModelEntry:
    try:
        is_pinned = "hub" not in table
        files = tuple(_file(item) for item in table["files"]) if is_pinned else (_unpinned_file(table),)
        entry = ModelEntry(
            name,
            table["title"],
            table["task"],
            table["format"],
            table["licence"],
            table["main"] if is_pinned else files[0].name,
            files,
            table.get("use", ""),
            is_pinned,
            table.get("tried", True),
        )
        if entry.task not in get_args(Task):
            raise ValueError(f"unknown task {entry.task!r}")
        if entry.main not in {file.name for file in files}:
            raise ValueError(f"main file {entry.main!r} is not among its files")
    except KeyError as error:
        raise ValueError(f"catalog entry {name!r} lacks {error}") from error
    except ValueError as error:
        raise ValueError(f"catalog entry {name!r}: {error}") from error
    return entry


def _file(table: dict[str, Any]) -> ModelFile:
    sources = tuple(_source(item) for item in table["sources"])
    check_relative(table["name"])
    if len(table["sha256"]) != 64 or table["size"] <= 0 or not sources:
        raise ValueError(f"file {table['name']!r} needs a sha256, a size and a source")
    return ModelFile(table["name"], table["size"], table["sha256"], sources)


def _unpinned_file(table: dict[str, Any]) -> ModelFile:
    check_relative(table["file"])
    if table["size"] <= 0:
        raise ValueError(f"file {table['file']!r} needs a size")
    return ModelFile(table["file"], table["size"], None, (HubSource(table["hub"], table["file"]),))


def _source(table: dict[str, Any]) -> Source:
    if "hub" in table:
        return HubSource(table["hub"], table["file"], table.get("revision", "main"))
    parts = table.get("parts", [table])
    return PackageSource(tuple(_part(item) for item in parts))


def _part(table: dict[str, Any]) -> PackagePart:
    registry: Registry = "pip" if "pip" in table else "npm"
    name, _, version = table[registry].rpartition("==" if registry == "pip" else "@")
    if not name or not version:
        raise ValueError(f"package {table[registry]!r} is not pinned to a version")
    return PackagePart(Package(registry, name, version), table["member"], table.get("start", 0), table.get("stop"))


def check_relative(name: str) -> None:
    """Raise ValueError for a file name that could lead outside its folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise ValueError(f"file name {name!r} leaves its folder")
