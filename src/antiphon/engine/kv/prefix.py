"""Digests of block contents, chained from the first token, so that equal digests mean equal prefixes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

DIGEST_BYTES = 16


def prefix_seed(model_revision: str, salt: str = "", content: bytes = b"") -> bytes:
    """Return the root digest of a chain: model revision, a salt that separates users, and other inputs of the KV."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in (model_revision.encode(), salt.encode(), content):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def chain(parent: bytes, tokens: Sequence[int]) -> bytes:
    """Return the digest of a block of tokens that follows the prefix with digest `parent`."""
    return blake2b(parent + array("q", tokens).tobytes(), digest_size=DIGEST_BYTES).digest()
