"""Models under a memory budget: who is loaded, who goes, and who may not; with an engine that only keeps books."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import (
    CheckpointError,
    EngineError,
    InvalidRequestError,
    LoadCancelledError,
    LoadTimeoutError,
    MemoryBudgetError,
    MemoryBusyError,
    ModelInUseError,
)
from antiphon.runtime.loading.memory_budget import cgroup_limits, default_budget, machine_bytes
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.residency import residency as residency_module
from antiphon.runtime.residency.keep_alive import FOREVER, keep_alive_text, parse_keep_alive
from antiphon.runtime.residency.residency import Residency
from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.weights.catalog.resolve import ResolvedModel
from support.engine.books import Books, empty_books


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Books:
    return empty_books(monkeypatch, tmp_path)


def model(books: Books, name: str, size: int, **details: Any) -> Resident:
    books.sizes.setdefault(name, size)
    return Resident(name, f"{name}:{size}", **details)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 120))


async def until(condition: Callable[[], object]) -> None:
    """Looks once in every turn of the event loop, so that it misses no state."""
    while not condition():
        await asyncio.sleep(0)


def test_the_least_recently_used_goes_and_nobody_in_use(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        a, b, c = (residency.add(model(books, name, 1000)) for name in "abc")
        for used in (a, b, c, a):
            await residency.acquire(used)
            residency.release(used)
        d = residency.add(model(books, "d", 1500))
        await residency.acquire(b)
        await residency.acquire(d)  # c, then a, go; b is in use
        assert books.history == ["+a", "+b", "+c", "-c", "-a", "+d"]
        assert residency.weight_bytes == 2500
        with pytest.raises(
            MemoryBusyError, match=r"'c' needs 1,000 .*; 500 of the memory budget of 4,000 bytes are free beside b, d"
        ):
            await residency.acquire(c)
        assert c.uses == 0 and c.failure is None and books.history[-1] == "+d"
        residency.release(b)
        await residency.acquire(c)
        assert books.history[-2:] == ["-b", "+c"]

    run(main())


def test_pinned_models_stay(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 3000)  # type: ignore[arg-type]
        a, b, c = (residency.add(model(books, name, 1000, is_pinned=name == "a")) for name in "abc")
        await residency.load(a)
        await residency.load(b)
        await residency.load(c)
        assert sorted(books.models) == ["a", "c"]

    run(main())


def test_one_that_never_fits_is_told_both_numbers_and_nobody_goes_for_it(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 3000)  # type: ignore[arg-type]
        a, big = residency.add(model(books, "a", 1000)), residency.add(model(books, "big", 2001))
        await residency.load(a)
        with pytest.raises(
            MemoryBudgetError, match=r"'big' needs 2,001 .* 1,000 for the KV cache; .* budget is 3,000 bytes"
        ):
            await residency.load(big)
        assert books.history == ["+a"] and big.state is ModelState.FAILED

    run(main())


def test_weights_larger_than_their_files_are_charged_as_they_are(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        books.sizes = {"a": 1000, "b": 2500, "c": 9000}
        a, b, c = (residency.add(model(books, name, 1000)) for name in "abc")
        await residency.load(a)
        await residency.load(b)
        assert books.history == ["+a", "+b", "-a"] and residency.weight_bytes == 2500
        with pytest.raises(MemoryBudgetError, match="9,000"):
            await residency.load(c)
        assert books.history[-1] == "-c" and c.charged_bytes == 0

    run(main())


def test_a_detector_is_charged_and_evicted_like_a_model(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        whisper, chat = residency.add(model(books, "whisper", 1000)), residency.add(model(books, "chat", 1950))
        detector = residency.add(model(books, "detector", 100, is_configured=False, is_companion=True))
        await residency.acquire(whisper)
        await residency.acquire(detector)
        assert residency.weight_bytes == 1100
        with pytest.raises(MemoryBusyError, match=r"1,900 of the memory budget .* beside whisper, detector"):
            await residency.acquire(chat)
        residency.release(detector)
        await residency.acquire(chat)
        assert books.history == ["+whisper", "+detector", "-detector", "+chat"]
        assert residency.weight_bytes == 2950 and list(residency.models) == ["whisper", "chat"]
        with pytest.raises(MemoryBusyError, match=r"'detector' needs 100 bytes .*; 50 of the memory budget"):
            await residency.acquire(residency.add(model(books, "detector", 100, is_configured=False)))

    run(main())


def test_keep_alive(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 9000)  # type: ignore[arg-type]
        a, b, c = (residency.add(model(books, name, 100, keep_alive=60.0)) for name in "abc")
        for used in (a, b, c):
            await residency.acquire(used)
        assert a.expires is None
        residency.release(a)
        residency.release(b, FOREVER)
        residency.release(c, 0)
        assert a.expires is not None and b.expires is None
        await until(lambda: "c" not in books.models)
        assert sorted(books.models) == ["a", "b"]
        await residency.acquire(a)
        residency.release(a, 0.05)
        clock = a.timer
        await residency.acquire(a)
        assert clock is not None and clock.cancelled() and a.timer is None
        a.keep_alive = 0.05
        residency.release(a)
        await until(lambda: a.state is ModelState.UNLOADED)
        assert sorted(books.models) == ["b"]

    run(main())


def test_those_who_wait_share_a_load_and_a_newcomer_meets_an_unload(books: Books) -> None:
    async def main() -> None:
        books.delay = 0.05
        residency = Residency(books, 9000)  # type: ignore[arg-type]
        a = residency.add(model(books, "a", 100, keep_alive=0.0))
        await asyncio.gather(*(residency.acquire(a) for _ in range(5)))
        assert books.history == ["+a"] and a.uses == 5
        for _ in range(5):
            residency.release(a)
        await until(lambda: a.state is ModelState.UNLOADING)
        await residency.acquire(a)
        assert books.history == ["+a", "-a", "+a"] and a.state is ModelState.READY
        with pytest.raises(ModelInUseError, match=r"used by 1 request$"):
            await residency.unload(a)
        await residency.unload(a, force=True)
        assert not books.models

    run(main())


def test_failures_are_told_again_for_a_while_and_others_go_on(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 9000)  # type: ignore[arg-type]
        a = residency.add(model(books, "a", 100))
        brought = residency.add(model(books, "b", 100, is_configured=False))
        books.error = CheckpointError("it is broken")
        for tried in (a, brought):
            with pytest.raises(CheckpointError):
                await residency.acquire(tried)
        assert a.error == "it is broken" and not a.may_be_tried_again and residency.weight_bytes == 0
        await asyncio.sleep(0)
        assert list(residency.models) == ["a"]  # what a request brought in is forgotten
        books.error = None
        await residency.load(a)
        assert a.state is ModelState.READY and a.error is None

    run(main())


def test_a_model_that_the_engine_lost_is_loaded_again(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 2150)  # type: ignore[arg-type]
        a = residency.add(model(books, "a", 1100))
        await residency.load(a)
        books.models.clear()
        await residency.acquire(a)
        assert books.history == ["+a", "+a"] and residency.weight_bytes == 1100

    run(main())


def test_a_model_is_ready_only_while_the_engine_has_it(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        a, b = residency.add(model(books, "a", 1000)), residency.add(model(books, "b", 1000))
        await residency.load(a)
        await residency.load(b)
        assert residency.state_of(a) is ModelState.READY
        books.state = EngineState.RESTARTING
        assert residency.state_of(a) is ModelState.LOADING
        del books.models["a"]  # it does not come back
        assert books.on_lost is not None
        books.on_lost("a", CheckpointError("the file is gone"))
        books.state = EngineState.READY
        assert (residency.state_of(a), residency.state_of(b)) == (ModelState.FAILED, ModelState.READY)
        assert a.error == "it was lost when the engine restarted: the file is gone"
        assert residency.weight_bytes == 1000 and a.loaded is None
        await residency.load(a)
        assert residency.state_of(a) is ModelState.READY and residency.weight_bytes == 2000
        books.state = EngineState.FAILED
        assert residency.state_of(a) is ModelState.UNLOADED

    run(main())


def test_a_load_under_which_the_engine_dies_is_not_repeated_and_at_the_second_death_has_failed(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        a = residency.add(model(books, "a", 1000))
        for state in (ModelState.UNLOADED, ModelState.FAILED):
            books.error, books.state = EngineError("the engine process died"), EngineState.RESTARTING
            with pytest.raises(EngineError, match="died"):
                await residency.acquire(a)
            assert a.state is state and a.uses == 0 and books.history == []
        books.error, books.state = None, EngineState.READY
        await residency.acquire(a)
        assert a.state is ModelState.READY and a.num_deaths == 0

    run(main())


def test_random_use_never_exceeds_the_budget(books: Books) -> None:
    """Ten models of other sizes, eight users at a time; the books must balance at every moment."""
    import random

    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        books.delay = 0.0005
        chance = random.Random(5)
        models = [
            residency.add(model(books, f"m{i}", 100 * i + 100, keep_alive=chance.choice([0.0, 0.01, FOREVER])))
            for i in range(10)
        ]
        served = 0

        async def user(seed: int) -> None:
            nonlocal served
            own = random.Random(seed)
            for _ in range(60):
                wanted = own.choice(models)
                try:
                    await residency.acquire(wanted)
                except MemoryBusyError:
                    await asyncio.sleep(0.001)
                    continue
                assert wanted.name in books.models
                await asyncio.sleep(own.random() * 0.003)
                assert wanted.name in books.models and wanted.loaded is not None
                assert sum(loaded.weight_bytes for loaded in books.models.values()) <= 3000
                served += 1
                residency.release(wanted, own.choice([None, 0.0, 0.005]))

        await asyncio.gather(*(user(seed) for seed in range(8)))
        assert served > 200 and all(not each.uses for each in models)

    run(main())


def test_a_catalog_model_that_cannot_fit_is_not_fetched(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 1 << 20)  # type: ignore[arg-type]
        model = residency.add(Resident("qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b"))
        with pytest.raises(MemoryBudgetError, match="needs 1,117,"):
            await residency.load(model)

    run(main())


def test_a_fetch_keeps_nobody_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from antiphon.weights.catalog import resolve as resolving
    from antiphon.weights.catalog.fetch import FetchProgress

    hold, ended, seen = threading.Event(), threading.Event(), []

    def resolve(reference: str, *, offline: bool, progress: Callable[[FetchProgress], None]) -> ResolvedModel:
        progress(FetchProgress(reference, "fetching", 1, 2))
        hold.wait(120)
        ended.set()
        raise CheckpointError("it came to nothing")

    monkeypatch.setattr(resolving, "resolve", resolve)

    async def leave() -> None:
        fetching = asyncio.create_task(residency_module.fetch_model("a", False, seen.append))
        await until(lambda: seen)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fetching, 0.1)

    asyncio.run(leave())
    assert not ended.is_set() and [update.done for update in seen] == [1]
    hold.set()

    async def fail() -> None:
        with pytest.raises(CheckpointError, match="nothing"):
            await residency_module.fetch_model("a", False, seen.append)

    asyncio.run(fail())


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(0, 0), (-1, FOREVER), (2.5, 2.5), ("30", 30), ("30s", 30), ("5m", 300), ("1.5h", 5400), ("250ms", 0.25)],
)
def test_keep_alive_is_read_like_this(given: float | str, seconds: float) -> None:
    assert parse_keep_alive(given) == seconds
    assert keep_alive_text(FOREVER) == -1


@pytest.mark.parametrize("given", ["", "m", "5 m", "5d", "1e3", "nan", float("nan")])
def test_and_not_like_this(given: float | str) -> None:
    with pytest.raises(InvalidRequestError, match="keep_alive"):
        parse_keep_alive(given)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)
    yield tmp_path


def test_the_budget_heeds_the_container(root: Path) -> None:
    assert cgroup_limits(root) == [] and machine_bytes(root) > 1 << 28
    (root / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert cgroup_limits(root) == []
    (root / "sys/fs/cgroup/memory.max").write_text("268435456\n")
    assert machine_bytes(root) == 268435456
    (root / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert machine_bytes(root) == 268435456
    assert 0 < default_budget() < machine_bytes()


def test_a_stuck_load_keeps_no_other_from_loading(books: Books, caplog: pytest.LogCaptureFixture) -> None:
    """It is reported while it lasts, and cancelled at the limit."""

    async def main() -> None:
        residency = Residency(books, 4000, load_seconds=0.5)  # type: ignore[arg-type]
        stuck, other = residency.add(model(books, "stuck", 1000)), residency.add(model(books, "other", 1000))
        books.stuck.add("stuck")
        waiting = asyncio.create_task(residency.acquire(stuck))
        await until(lambda: stuck.state is ModelState.LOADING)
        await residency.acquire(other)
        assert other.state is ModelState.READY and residency.weight_bytes == 2000
        with pytest.raises(LoadTimeoutError, match=r"loading took more than 0\.5 s and was cancelled"):
            await waiting
        assert books.cancelled == ["stuck"] and residency.weight_bytes == 1000
        assert stuck.state is ModelState.FAILED and stuck.uses == 0 and stuck.loading_seconds is None
        books.stuck.clear()
        await residency.acquire(stuck)
        assert stuck.state is ModelState.READY and stuck.error is None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residency_module, "SLOW_SECONDS", 0.01)
        run(main())
    assert "model 'stuck' has been loading for 0 s; it is cancelled after 0.5 s" in caplog.text


def test_cancelling_a_load(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        a = residency.add(model(books, "a", 1000))
        books.stuck.add("a")
        waiting = [asyncio.create_task(residency.acquire(a)) for _ in range(2)]
        await until(lambda: a.state is ModelState.LOADING)
        with pytest.raises(ModelInUseError, match="is being loaded for 2 requests"):
            await residency.unload(a)
        await residency.unload(a, force=True)
        for waiter in waiting:
            with pytest.raises(LoadCancelledError, match="loading model 'a' was cancelled"):
                await waiter
        assert books.cancelled == ["a"] and a.uses == 0 and a.state is ModelState.UNLOADED and a.error is None
        waiting[0] = asyncio.create_task(residency.load(a))
        await until(lambda: a.state is ModelState.LOADING)
        await residency.unload(a)  # nobody uses it
        assert a.state is ModelState.UNLOADED and residency.weight_bytes == 0
        with pytest.raises(LoadCancelledError):
            await waiting[0]

    run(main())


def test_closing_cancels_all_loads(books: Books) -> None:
    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        models = [residency.add(model(books, name, 1000)) for name in "ab"]
        books.stuck.update("ab")
        waiting = [asyncio.create_task(residency.load(each)) for each in models]
        await until(lambda: all(each.state is ModelState.LOADING for each in models))
        await residency.close()
        assert [each.state for each in models] == [ModelState.UNLOADED] * 2
        for waiter in waiting:
            with pytest.raises(LoadCancelledError):
                await waiter
        await residency.close()

    run(main())


def test_a_model_goes_while_its_adapter_is_stuck(books: Books, tmp_path: Path) -> None:
    async def main() -> None:
        residency = Residency(books, 4000)  # type: ignore[arg-type]
        base = residency.add(model(books, "base", 1000))
        (tmp_path / "own.gguf").write_bytes(bytes(10))
        adapter = residency.add(Resident("base:own", str(tmp_path / "own.gguf"), base=base))
        books.sizes["base:own"] = 10
        books.stuck.add("base:own")
        waiting = asyncio.create_task(residency.acquire(adapter))
        await until(lambda: adapter.state is ModelState.LOADING)
        await residency.unload(base, force=True)
        with pytest.raises(LoadCancelledError):
            await waiting
        assert (base.state, adapter.state) == (ModelState.UNLOADED, ModelState.UNLOADED)
        assert base.uses == adapter.uses == residency.weight_bytes == 0

    run(main())
