"""`Resident`: a model that is, was or may become resident."""

from __future__ import annotations

import asyncio
import math
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

#: Minimum seconds between a failed load and the next attempt.
RETRY_SECONDS = 30.0
#: Seconds after which a load is reported as slow.
SLOW_SECONDS = 30.0


class ModelState(StrEnum):
    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"
    FAILED = "failed"


@dataclass(eq=False)
class Resident:
    """Model that is, was or may become resident. `text` and `loaded` are set while it is READY.

    `keep_alive` is the time in seconds that it stays after its last use; a pinned model is never unloaded to make room.
    """

    name: str
    reference: str
    keep_alive: float = FOREVER
    is_pinned: bool = False
    #: Model of this adapter; `reference` is then a path, and `name` is `base:adapter`.
    base: Resident | None = None
    #: Device to load the model onto; None is the engine's own.
    device: str | None = None
    #: Whether the configuration names the model; others are removed when they are unloaded.
    is_configured: bool = True
    #: Whether it is a detector that calls to other models use. No request can name it.
    is_companion: bool = False
    state: ModelState = ModelState.UNLOADED
    created: int = field(default_factory=lambda: int(time.time()))
    text: ModelText | None = None
    loaded: Loaded | None = None
    failure: AntiphonError | None = None
    failed_at: float = 0.0
    #: Number of consecutive deaths of the engine's process while it loaded the model.
    num_deaths: int = 0
    fetching: FetchProgress | None = None
    #: Number of requests that use the model or wait for it.
    uses: int = 0
    last_use: float | None = None
    #: Bytes of weights that the budget is charged with.
    charged_bytes: int = 0
    #: Device whose budget is charged.
    charged_device: str = CPU
    #: Wall-clock time at which an unused model is unloaded; None while it is in use or stays for ever.
    expires: float | None = None
    loading: asyncio.Task[None] | None = None
    #: Monotonic time at which loading began, after the download.
    loading_since: float | None = None
    timer: asyncio.TimerHandle | None = None
    turn: int = 0

    @property
    def error(self) -> str | None:
        return None if self.failure is None else str(self.failure)

    @property
    def loading_seconds(self) -> float | None:
        """Seconds for which the model has been loading, without its download; None if it is not loading."""
        return None if self.loading_since is None else time.monotonic() - self.loading_since

    @property
    def is_slow(self) -> bool:
        """Whether loading has taken so long that it may be stuck."""
        seconds = self.loading_seconds
        return seconds is not None and seconds >= SLOW_SECONDS

    @property
    def may_be_tried_again(self) -> bool:
        return self.failure is None or time.monotonic() - self.failed_at >= RETRY_SECONDS

    def allow_retry(self) -> None:
        """Let the next request try a failed load again at once."""
        self.failed_at = -math.inf

    @property
    def is_idle(self) -> bool:
        """Whether the model may be unloaded to make room for another."""
        return self.state is ModelState.READY and not self.uses and not self.is_pinned
