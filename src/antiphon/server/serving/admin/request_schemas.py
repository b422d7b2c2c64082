"""Request bodies of the administration routes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from antiphon.server.web.http.schemas import Body, KeepAlive, Name


class AdminLoadBody(Body):
    #: Model name; `model:name` for an adapter.
    model: Name
    #: Path of a LoRA adapter on the server's machine.
    adapter: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    keep_alive: KeepAlive | None = None
    #: `cpu`, `cuda`, `cuda:N` or `auto`; by default the configured device, or the engine's own.
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$")] | None = None
    #: Whether the model is never unloaded to make room.
    pinned: bool | None = None


class AdminUnloadBody(Body):
    model: Name
    #: Whether to end the requests that use the model.
    force: bool | None = None


#: Name in the catalog, hub reference, or configured name.
StoredName = Annotated[str, Field(min_length=1, max_length=512)]


class AdminPullBody(Body):
    model: StoredName
    #: False for one answer at the end instead of progress events.
    stream: bool | None = None


class AdminCancelBody(Body):
    model: StoredName


class AdminDeleteBody(Body):
    model: StoredName
