"""The bodies of administration."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from antiphon.server.web.http.schemas import Body, KeepAlive, Name


class AdminLoadBody(Body):
    #: For an adapter, `model:name`.
    model: Name
    #: The path of a LoRA adapter on the server's machine.
    adapter: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    keep_alive: KeepAlive | None = None
    #: `cpu`, `cuda`, `cuda:N`, or `auto`; else the device it was configured with, or the engine's own.
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$")] | None = None
    #: Never unloaded to make room.
    pinned: bool | None = None


class AdminUnloadBody(Body):
    model: Name
    #: End the requests that use it.
    force: bool | None = None


#: A catalog, hub or configured name.
StoredName = Annotated[str, Field(min_length=1, max_length=512)]


class AdminPullBody(Body):
    model: StoredName
    #: Progress as events; without it one answer at the end.
    stream: bool | None = None


class AdminCancelBody(Body):
    model: StoredName


class AdminDeleteBody(Body):
    model: StoredName
