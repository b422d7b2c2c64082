"""`in_daemon_thread`: blocking work that nothing waits for once its caller has left."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_daemon_thread(name: str, work: Callable[[], Result]) -> Result:
    """Return what `work` returns in a thread of its own.

    Work that blocks for ever takes no thread of the loop's executor from others, and delays neither a cancelled caller
    nor the end of the program.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Result] = loop.create_future()

    def settle(set_result: Callable[[asyncio.Future[Result]], None]) -> None:
        if not result.done():
            set_result(result)

    def run() -> None:
        try:
            value = work()
        except Exception as error:
            failure = error
            notify(loop, settle, lambda future: future.set_exception(failure))
        else:
            notify(loop, settle, lambda future: future.set_result(value))

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result


def notify(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *values: object) -> None:
    """Call it in the event loop, unless that is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *values)
