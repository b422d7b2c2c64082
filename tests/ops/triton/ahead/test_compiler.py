"""Kernels are compiled by processes, read by the caller, and given up when the model is unloaded."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from antiphon.ops.triton import is_interpreted
from antiphon.ops.triton.ahead.compiler import AheadCompiler
from antiphon.ops.triton.ahead.processes import ProcessEndedError
from antiphon.ops.triton.ahead.variant import Variant
from antiphon.ops.triton.kernel_cache import CompiledMarks

pytestmark = pytest.mark.skipif(is_interpreted(), reason="kernels have no hash under the interpreter")


def variant(block: int) -> Variant:
    from antiphon.ops.triton.kernels.rows.store import grow_rows

    rows = torch.zeros(4, dtype=torch.int32)
    return Variant.of(grow_rows, (rows, rows, 4, 16), {"BLOCK": block})


def block_of(made: Variant) -> int:
    return int(dict(made.keywords)["BLOCK"])


class Bench:
    """What a compiler is given: processes that compile nothing, and what was read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiled: list[int] = []
        self.read: list[tuple[int, bool]] = []
        self.started: list[FakeProcess] = []
        self.failing: dict[int, Exception] = {}
        self.holds = threading.Event()  # a process waits until it is set
        self.holds.set()
        self.waits = threading.Event()  # one does

    def compiler(self) -> AheadCompiler:
        def read(made: Variant, loads: bool) -> None:
            self.read.append((block_of(made), loads))

        return AheadCompiler(torch.device("cpu"), start=self.start, read=read, marks=CompiledMarks(self.folder))

    def start(self, capability: int, is_nice: bool) -> FakeProcess:
        process = FakeProcess(self)
        self.started.append(process)
        return process


class FakeProcess:
    def __init__(self, bench: Bench) -> None:
        self.bench, self.is_killed, self.is_closed = bench, False, False

    def compile(self, made: Variant) -> None:
        if not self.bench.holds.is_set():
            self.bench.waits.set()
            self.bench.holds.wait(60)
        if self.is_killed:
            raise ProcessEndedError("killed")
        error = self.bench.failing.get(block_of(made))
        if error is not None:
            raise error
        self.bench.compiled.append(block_of(made))

    def kill(self) -> None:
        self.is_killed = True
        self.bench.holds.set()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def compile_all(compiler: AheadCompiler, *blocks: int) -> int:
    begun = compiler.begin(map(variant, blocks))
    compiler.finish(begun)
    return len(begun.missing)


def test_each_kernel_once(bench: Bench) -> None:
    assert compile_all(bench.compiler(), 1, 2, 1, 4) == 3
    assert sorted(bench.compiled) == [1, 2, 4]
    assert sorted(bench.read) == [(1, True), (2, True), (4, True)]
    assert all(process.is_closed for process in bench.started)


def test_a_later_process_reads_what_is_on_disk(bench: Bench) -> None:
    compile_all(bench.compiler(), 1, 2)
    bench.started.clear()
    bench.read.clear()
    assert compile_all(bench.compiler(), 1, 2) == 0
    assert not bench.started
    assert sorted(bench.read) == [(1, True), (2, True)]


def test_a_kernel_that_fails_is_a_warning_with_its_name(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.failing[2] = RuntimeError("ptxas: no such instruction\nmore lines")
    compile_all(bench.compiler(), 1, 2, 4)
    assert sorted(bench.read) == [(1, True), (4, True)]
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    message = record.getMessage()
    assert "grow_rows" in message and message.endswith("ptxas: no such instruction")
    bench.failing.clear()
    assert compile_all(bench.compiler(), 1, 2, 4) == 1  # it is tried again


@pytest.mark.parametrize("error", [ProcessEndedError("killed"), OSError("no processes left")])
def test_without_processes_kernels_are_compiled_here(bench: Bench, error: Exception) -> None:
    bench.failing = dict.fromkeys((1, 2), error)
    compile_all(bench.compiler(), 1, 2)
    assert sorted(bench.read) == [(1, True), (2, True)]


def test_without_processes_nothing_is_compiled_here_while_requests_run(bench: Bench) -> None:
    bench.failing = {1: ProcessEndedError("killed")}
    compiler = bench.compiler()
    compiler.compile_in_background(([variant(1), variant(2)], None))
    compiler.wait()
    assert bench.read == [(2, False)]


def test_groups_in_the_background(bench: Bench) -> None:
    compiler = bench.compiler()
    there: list[list[tuple[int, bool]]] = []
    compiler.compile_in_background(([variant(1)], lambda: there.append(list(bench.read))), ([variant(2)], None))
    compiler.wait()
    (read_before,) = there
    assert (1, False) in read_before
    assert sorted(bench.read) == [(1, False), (2, False)]


def test_a_group_that_is_there_does_not_wait_for_the_next(bench: Bench) -> None:
    """One set of processes compiles both groups."""
    compile_all(bench.compiler(), 1)
    bench.started.clear()
    bench.holds.clear()
    compiler, there = bench.compiler(), threading.Event()
    compiler.compile_in_background(([variant(1)], there.set), ([variant(2)], None))
    assert there.wait(60) and bench.waits.wait(60)
    assert not bench.compiled[1:] and len(bench.started) == 1
    bench.holds.set()
    compiler.wait()
    assert bench.compiled == [1, 2]


def test_cancelled_in_the_background(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.holds.clear()
    compiler = bench.compiler()
    there: list[str] = []
    compiler.compile_in_background(([variant(1 << power) for power in range(8)], lambda: there.append("first")))
    assert bench.waits.wait(60)
    compiler.cancel()
    compiler.wait()
    assert not bench.read and not bench.compiled
    assert not caplog.records and not there
    compiler.compile_in_background(([variant(512)], None))
    compiler.wait()
    assert not bench.read


def test_cancelled_before_anything(bench: Bench) -> None:
    compiler = bench.compiler()
    compiler.cancel()
    assert compile_all(compiler, 1, 2) == 2
    assert not bench.started and not bench.read
