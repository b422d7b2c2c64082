"""`Resident`: a model that is, was or may be resident."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from antiphon.device_names import CPU
from antiphon.errors import AntiphonError
from antiphon.runtime.residency.keep_alive import FOREVER

if TYPE_CHECKING:
    from antiphon.runtime.loading.model_text import ModelText
    from antiphon.runtime.process.messages import Loaded
    from antiphon.weights.catalog.fetch import FetchProgress

#: A model that failed to load is not tried again sooner.
RETRY_SECONDS = 30.0
#: Loading that takes longer is reported.
SLOW_SECONDS = 30.0


class ModelState(StrEnum):
    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"
    FAILED = "failed"


@dataclass(eq=False)
class Resident:
    """A model that is, was or may be resident. `text` and `loaded` are there while it is READY.

    `keep_alive` is how many seconds it stays after its last use; a pinned one is never unloaded to make room.
    """

    name: str
    reference: str
    keep_alive: float = FOREVER
    is_pinned: bool = False
    #: The model that this is an adapter of; `reference` is then a path, and `name` is `base:adapter`.
    base: Resident | None = None
    #: The device that it is to be loaded onto; None is the engine's own.
    device: str | None = None
    #: Named in the configuration; another is forgotten when it is unloaded.
    is_configured: bool = True
    #: A detector that calls to other models use. No request can name it.
    is_companion: bool = False
    state: ModelState = ModelState.UNLOADED
    created: int = field(default_factory=lambda: int(time.time()))
    text: ModelText | None = None
    loaded: Loaded | None = None
    failure: AntiphonError | None = None
    failed_at: float = 0.0
    #: How often in a row the engine's process died while it was being loaded.
    num_deaths: int = 0
    fetching: FetchProgress | None = None
    #: Requests that use it or wait for it.
    uses: int = 0
    last_use: float | None = None
    #: Bytes of its weights that the budget is charged with.
    charged_bytes: int = 0
    #: The device whose budget is charged.
    charged_device: str = CPU
    #: When it is unloaded unless a request uses it, by the wall clock.
    expires: float | None = None
    loading: asyncio.Task[None] | None = None
    #: When loading began, after the download, by the monotonic clock.
    loading_since: float | None = None
    timer: asyncio.TimerHandle | None = None
    turn: int = 0

    @property
    def error(self) -> str | None:
        return None if self.failure is None else str(self.failure)

    @property
    def loading_seconds(self) -> float | None:
        """How long the model has been loading, without its download; None if it is not."""
        return None if self.loading_since is None else time.monotonic() - self.loading_since

    @property
    def is_slow(self) -> bool:
        """Whether loading takes so long that it may be stuck."""
        seconds = self.loading_seconds
        return seconds is not None and seconds >= SLOW_SECONDS

    @property
    def may_be_tried_again(self) -> bool:
        return self.failure is None or time.monotonic() - self.failed_at >= RETRY_SECONDS

    @property
    def is_idle(self) -> bool:
        """Whether it may be unloaded to make room for another."""
        return self.state is ModelState.READY and not self.uses and not self.is_pinned
