"""`ModelPreparations`: models downloaded and loaded for the page ahead of the request that needs them.

A request that loads a model is silent until the model is there. So the page first has the model prepared, shows the
progress, and then sends its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from antiphon.errors import AntiphonError, FetchError
from antiphon.models.base.companions import COMPANIONS
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.server.page.missing_files import MissingFiles
from antiphon.server.serving.downloads import Downloads
from antiphon.server.serving.failures import engine_unavailable
from antiphon.server.serving.model_card import task_of
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext, current_context
from antiphon.server.web.http.errors import ApiError
from antiphon.weights.catalog.references import HUB_PREFIX


class Preparation:
    """A model being prepared. `total_bytes` are those to download; None until they have been looked up."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.total_bytes: int | None = None
        self.completed_bytes = 0


class ModelPreparations:
    """Running preparations and failures of the last ones, by model. Only for the server's event loop."""

    def __init__(self, serving: Serving, downloads: Downloads) -> None:
        self._files = MissingFiles()
        self._serving = serving
        self._downloads = downloads
        self._running: dict[str, Preparation] = {}
        self._failures: dict[str, str] = {}

    def start(self, model: Resident) -> None:
        """Begin to prepare a model and its companions, unless that runs already. The load may fail like any other.

        A failed download is tried again at once, since a user asked for it.
        """
        if model.name in self._running:
            return
        self._failures.pop(model.name, None)
        self._running[model.name] = Preparation(asyncio.create_task(self._run(model)))

    def is_running(self, model: Resident) -> bool:
        return model.name in self._running

    def error(self, model: Resident) -> str | None:
        """Return why the model was not prepared or loaded, or None."""
        if model.name in self._running or model.state is ModelState.READY:
            return None
        return self._failures.get(model.name) or model.error

    async def missing(self, model: Resident) -> dict[str, int | None]:
        """Return the bytes to download of the model and its companions that are not here; None for an unknown size."""
        if model.state is ModelState.READY:
            return {}
        return {name: size for name, size in (await self._files.look(parts_of(model))).items() if size != 0}

    async def progress(self, model: Resident) -> tuple[int, int] | None:
        """Return the bytes downloaded so far and the total, or None while nothing is downloaded."""
        preparation = self._running.get(model.name)
        if preparation is None or preparation.total_bytes is None:
            update = self._download(model.reference)
            return None if update is None or update[1] == 0 else update
        if preparation.total_bytes == 0:
            return None
        sizes = await self._files.look(parts_of(model))
        left = 0
        for part in parts_of(model):
            update = self._download(part)
            left += (sizes[part] or 0) if update is None else update[1] - update[0]
        done = max(preparation.completed_bytes, preparation.total_bytes - left)
        preparation.completed_bytes = done
        return done, preparation.total_bytes

    def _download(self, reference: str) -> tuple[int, int] | None:
        """Return the progress of the running download of these files, or None."""
        name = _stored_name(reference)
        updates = [one.fetching for one in self._serving.models if _stored_name(one.reference) == name]
        updates += [one.progress for one in self._downloads if one.reference == name]
        return next(((update.done, update.total) for update in updates if update is not None), None)

    async def _run(self, model: Resident) -> None:
        try:
            self._running[model.name].total_bytes = total_bytes(await self.missing(model))
            await self._prepare(model)
        except ApiError as error:
            cause = error.__cause__
            reason = str(cause) if isinstance(cause, AntiphonError) else error.message
            self._failures[model.name] = f"{model.name} was not loaded: {reason.removeprefix(f'{model.name}: ')}"
        finally:
            del self._running[model.name]

    async def _prepare(self, model: Resident) -> None:
        serving = self._serving
        while serving.client.state in (EngineState.STARTING, EngineState.RESTARTING):
            await serving.client.wait_for_change()
        if serving.client.state is not EngineState.READY:
            raise engine_unavailable(serving.client)
        await serving.models.started(model)
        if isinstance(model.failure, FetchError):
            model.allow_retry()
        context = RequestContext(f"prepare-{model.name}")
        current_context.set(context)  # of this task alone
        try:
            if model.is_companion:
                await serving.models.acquire_detector(model.name)
                return
            # Companions first, so that the download does not pause while the model is loaded.
            for name in companions_of(model):
                await serving.models.acquire_detector(name)
            ready = await serving.models.ready(model.name)
            for name in ready.loaded.companions:
                await serving.models.acquire_detector(name)
        finally:
            context.close()


def total_bytes(missing: Mapping[str, int | None]) -> int | None:
    """Return the sum of the bytes to download, or None if one of them is unknown."""
    sizes = [size for size in missing.values() if size is not None]
    return sum(sizes) if len(sizes) == len(missing) else None


def companions_of(model: Resident) -> tuple[str, ...]:
    """Return the references of the model's companions, as far as its task is known."""
    return COMPANIONS.get(task_of(model) or "", ())


def parts_of(model: Resident) -> list[str]:
    """Return the references whose files a model needs: its own and its companions', each set of files once."""
    return list(dict.fromkeys([model.reference, *map(_stored_name, companions_of(model))]))


def _stored_name(reference: str) -> str:
    """Return the name under which the store keeps a reference's files: `name:file` is one of an entry's models."""
    return reference if reference.startswith(HUB_PREFIX) else reference.partition(":")[0].lower()
