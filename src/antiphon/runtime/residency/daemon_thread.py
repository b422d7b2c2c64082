"""`in_daemon_thread`: blocking work that a cancelled caller and the end of the program do not wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_daemon_thread(name: str, work: Callable[[], Result]) -> Result:
    """Run `work` in a thread of its own and return its result.

    Work that blocks for ever does not occupy a thread of the loop's executor, and delays neither a cancelled caller nor
    the end of the program.
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
    """Call `call` with these values in the event loop, unless the loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *values)
