"""API keys: read from a file, held as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from antiphon.errors import InvalidRequestError

MIN_KEY_CHARACTERS = 8


class KeyRing:
    """API keys that give access, kept as SHA-256 hashes."""

    def __init__(self, keys: list[str]) -> None:
        if not keys:
            raise InvalidRequestError("there is no API key: a key file has one key per line")
        for number, key in enumerate(keys, start=1):
            if len(key) < MIN_KEY_CHARACTERS:
                raise InvalidRequestError(
                    f"API key {number} has {len(key)} characters; it needs at least {MIN_KEY_CHARACTERS}"
                )
        self._hashes = [_hash(key.encode()) for key in keys]

    @classmethod
    def read(cls, path: Path) -> KeyRing:
        """Read one key per line, skipping empty lines and lines that begin with #."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise InvalidRequestError(f"cannot read the API key file {path}: {cause}") from error
        except UnicodeDecodeError as error:
            raise InvalidRequestError(f"cannot read the API key file {path}: it is not UTF-8 text") from error
        return cls([line.strip() for line in lines if line.strip() and not line.strip().startswith("#")])

    def find(self, authorization: bytes | None) -> int | None:
        """Return the number of the key in an `Authorization` header, or None. Takes constant time."""
        scheme, _, key = (authorization or b"").partition(b" ")
        found = self.find_bare(key)
        return found if scheme.lower() == b"bearer" else None

    def find_bare(self, key: bytes | None) -> int | None:
        """Return the number of a key sent by itself, as in an `X-Api-Key` header, or None. Takes constant time."""
        given = _hash((key or b"").strip())
        matches = [hmac.compare_digest(given, known) for known in self._hashes]
        return matches.index(True) if any(matches) else None

    def owner(self, number: int) -> str:
        """Return a name for a key's number that stays the same after a restart and does not reveal the key."""
        return hashlib.sha256(b"antiphon owner" + self._hashes[number]).hexdigest()[:32]

    def number(self, owner: str) -> int | None:
        """Return the number of the key with this owner name, or None."""
        return next((number for number in range(len(self)) if self.owner(number) == owner), None)

    def shares_a_key_with(self, other: KeyRing) -> bool:
        return not set(self._hashes).isdisjoint(other._hashes)

    def __len__(self) -> int:
        return len(self._hashes)

    def __repr__(self) -> str:
        return f"KeyRing({len(self)} keys)"


def _hash(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
