"""Memory that is given back is back, by the system's own count."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from antiphon.engine.kv.arena import SlabArena
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.process_memory import read_pages, release_pages, resident_bytes
from antiphon.runtime.slots.arena import Arena

SIZE = 64 << 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's madvise")


class Pool:
    """A borrower of slabs that holds what it was lent."""

    def __init__(self) -> None:
        self.slabs: list[int] = []

    def release_idle_slab(self) -> bool:
        return False

    def idle_since(self) -> int | None:
        return None

    def lent_slabs(self) -> list[int]:
        return self.slabs


@linux
def test_whole_pages_inside_a_span_are_released() -> None:
    data = np.ones(SIZE, dtype=np.uint8)
    before = resident_bytes()
    release_pages(data.ctypes.data + 100, SIZE // 2)
    assert before - resident_bytes() > 0.9 * SIZE / 2
    assert (
        data[:100].all() and not data[mmap.PAGESIZE : SIZE // 2 - mmap.PAGESIZE].any() and data[SIZE // 2 + 100 :].all()
    )


@linux
def test_pages_of_a_file_are_read_in(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(SIZE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), SIZE, access=mmap.ACCESS_READ) as mapped:
        array = np.frombuffer(mapped, dtype=np.uint8)
        before = resident_bytes()
        read_pages(array.ctypes.data + 10, SIZE - 10)
        assert resident_bytes() - before > 0.9 * SIZE
        del array


def test_spans_of_free_slabs() -> None:
    books, pool = SlabArena(10 * 256, 256), Pool()
    books.register(pool)
    assert books.free_spans() == [(0, 2560)]
    for _ in range(6):
        slab = books.lend(pool)
        assert slab is not None
        pool.slabs.append(slab)
    for slab in (1, 2, 4):
        pool.slabs.remove(slab)
        books.take_back(slab)
    books.check_integrity()
    assert books.free_spans() == [(256, 512), (1024, 256), (1536, 1024)]


@linux
def test_free_slabs_of_an_arena_hold_no_memory_and_lent_ones_keep_theirs() -> None:
    arena, pool = Arena.allocate(EngineConfig(kv_bytes=SIZE)), Pool()
    arena.books.register(pool)
    size = arena.books.slab_bytes
    for _ in range(arena.books.num_slabs // 2):
        slab = arena.books.lend(pool)
        assert slab is not None
        pool.slabs.append(slab)
    arena.memory.fill_(7)
    before = resident_bytes()
    arena.release_free_pages()
    assert before - resident_bytes() > 0.9 * SIZE / 2
    for slab in pool.slabs:
        assert bool((arena.memory[slab * size : (slab + 1) * size] == 7).all())
