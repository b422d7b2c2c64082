"""Models to be loaded at start that fail for a cause that may pass are loaded when it has passed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.errors import AntiphonError, CheckpointError, EngineError
from antiphon.runtime.residency import resident
from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.server.serving.models import ServedModels
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.engine.books import Books, empty_books
from support.waiting import wait_until_async


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Books:
    return empty_books(monkeypatch, tmp_path)


def served(books: Books) -> tuple[ServedModels, Resident]:
    config = ServerConfig(models=(ModelSpec("a", "a:1000"),), memory_bytes=4000)
    models = ServedModels(config, books)  # type: ignore[arg-type]
    return models, models.residency.models["a"]


async def looked_after(models: ServedModels, turns: int = 200) -> None:
    task = asyncio.create_task(models.keep_loaded())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()


@pytest.mark.parametrize(
    ("error", "comes_back"), [(EngineError("out of memory"), True), (CheckpointError("not a model"), False)]
)
def test_what_is_tried_again(
    books: Books, monkeypatch: pytest.MonkeyPatch, error: AntiphonError, comes_back: bool
) -> None:
    async def main() -> None:
        models, model = served(books)
        books.error = error
        await models.load_all()
        assert models.status == "failed" and models.cause == "failed to load: a"
        books.error = None
        await looked_after(models)
        assert models.status == "failed", "it is not tried again at once"
        monkeypatch.setattr(resident, "RETRY_SECONDS", 0.0)
        keeping = asyncio.create_task(models.keep_loaded())
        if comes_back:
            await wait_until_async(lambda: model.state is ModelState.READY, "the model", seen=lambda: model.state)
            assert models.is_ready and models.describe(model) == "ready"
        else:
            await looked_after(models)
            assert not models.is_ready
        keeping.cancel()

    asyncio.run(main())


def test_a_model_that_was_lost_in_a_restart_makes_the_server_not_ready_until_it_is_back(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "RETRY_SECONDS", 0.0)

    async def main() -> None:
        models, model = served(books)
        await models.load_all()
        assert models.is_ready
        del books.models["a"]
        assert books.on_lost is not None
        books.on_lost("a", CheckpointError("a disk that is not there"))
        assert models.status == "failed"
        assert models.describe(model) == "failed: it was lost when the engine restarted: a disk that is not there"
        keeping = asyncio.create_task(models.keep_loaded())
        await wait_until_async(lambda: models.is_ready, "the model", seen=lambda: models.describe(model))
        keeping.cancel()

    asyncio.run(main())
