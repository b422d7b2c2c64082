"""Names for the contents of blocks: a digest chained from the first token, so equal digests mean equal prefixes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

DIGEST_BYTES = 16


def prefix_seed(model_revision: str, salt: str = "", content: bytes = b"") -> bytes:
    """The root of a chain: the model, a salt that keeps users apart, and whatever else the KV depends on."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in (model_revision.encode(), salt.encode(), content):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def chain(parent: bytes, tokens: Sequence[int]) -> bytes:
    """The digest of a block of tokens that follows the prefix `parent`."""
    return blake2b(parent + array("q", tokens).tobytes(), digest_size=DIGEST_BYTES).digest()
