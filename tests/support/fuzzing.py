"""Fuzz parsers with damaged copies of valid files: each copy must give a result or an `AntiphonError`."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from antiphon.errors import AntiphonError
from support.programs.server_process import resident_bytes

SEEDS = Path(__file__).parent.parent / "fuzz" / "seeds"
#: Examples per target in the fast suite and in a soak.
NUM_EXAMPLES, NUM_SOAK_EXAMPLES = 120, 10_000
#: Maximum processor seconds for an input of a few kilobytes.
MOST_SECONDS = 2.0
#: Maximum growth of resident memory, in bytes, after an input of a few kilobytes.
MOST_BYTES = 64 << 20

INTERESTING = (0, 1, 7, 8, 31, 32, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1,
               2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def seeds(target: str) -> list[bytes]:
    """Return the files under `seeds/TARGET`: valid files, and inputs that once triggered a bug."""
    found = [path.read_bytes() for path in sorted((SEEDS / target).iterdir())]
    assert found, f"there are no seeds for {target}"
    return found


@st.composite
def _change(draw: st.DrawFn, start: int, stop: int) -> Callable[[bytearray], None]:
    """Generate an edit at a random offset between `start` and `stop`."""
    places = st.integers(start, max(start, stop - 1))
    at = draw(places)
    kind = draw(st.sampled_from(("number", "byte", "bit", "insert", "delete", "copy", "cut")))
    if kind == "number":
        width = draw(st.sampled_from(sorted(FORMATS)))
        order = draw(st.sampled_from("<>"))
        value = draw(st.sampled_from(INTERESTING)) % 2 ** (8 * width)
        packed = struct.pack(order + FORMATS[width], value)
        return lambda data: data.__setitem__(slice(at, at + width), packed)
    if kind == "byte":
        return _overwrite(at, draw(st.binary(min_size=1, max_size=4)))
    if kind == "bit":
        mask = 1 << draw(st.integers(0, 7))
        return lambda data: data.__setitem__(slice(at, at + 1), bytes([byte ^ mask for byte in data[at : at + 1]]))
    if kind == "insert":
        new = draw(st.binary(min_size=1, max_size=24))
        return lambda data: data.__setitem__(slice(at, at), new)
    length = draw(st.integers(1, 64))
    if kind == "delete":
        return lambda data: data.__delitem__(slice(at, at + length))
    if kind == "copy":
        source = draw(places)
        return lambda data: data.__setitem__(slice(at, at), data[source : source + length])
    return lambda data: data.__delitem__(slice(at, None))


def _overwrite(at: int, new: bytes) -> Callable[[bytearray], None]:
    return lambda data: data.__setitem__(slice(at, at + len(new)), new)


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[bytes], most_changes: int = 4) -> bytes:
    """Generate a copy of a seed with up to `most_changes` edits, mostly near its start or end, where headers are."""
    original = draw(st.sampled_from(list(originals)))
    data = bytearray(original)
    length = min(len(original), draw(st.sampled_from((64, 512, len(original)))))
    start = draw(st.sampled_from((0, len(original) - length)))
    for _ in range(draw(st.integers(0, most_changes))):
        draw(_change(start, start + length))(data)
    return bytes(data)


@st.composite
def damaged_text(draw: st.DrawFn, originals: Sequence[str], words: Sequence[str]) -> str:
    """Generate a copy of a seed with random spans removed, repeated, or replaced by words of the language."""
    text = draw(st.sampled_from(list(originals)))
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 20))
        times = draw(st.sampled_from((1, 1, 1, 2, 50)))
        new = draw(st.one_of(st.sampled_from(list(words)), st.text(max_size=4)))
        text = text[:at] + new * times + text[at + length :]
    return text


def fuzz(parse: Callable[[Any], object], inputs: st.SearchStrategy[Any], soak: bool, share: float = 1.0) -> None:
    """Parse many inputs; fail unless each gives a result or an `AntiphonError` within the time and memory limits."""
    count = max(10, int((NUM_SOAK_EXAMPLES if soak else NUM_EXAMPLES) * share))

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        derandomize=not soak,
    )
    @given(inputs)
    def run(content: Any) -> None:
        start, held = time.thread_time(), resident_bytes(os.getpid())
        try:
            parse(content)
        except AntiphonError as error:
            assert str(error).strip(), "an error says what is wrong"
        assert time.thread_time() - start < MOST_SECONDS
        assert resident_bytes(os.getpid()) - held < MOST_BYTES

    run()
