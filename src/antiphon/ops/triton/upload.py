"""`UploadRing`: copies bytes from mapped files to the GPU through a ring of pinned buffers."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

#: Number of buffers; each has a thread that fills it while other buffers are being sent.
BUFFERS = 4
BUFFER_BYTES = 16 << 20


class UploadRing:
    """Asynchronous copies from CPU memory to a device, by threads and in any order.

    Sources must stay unchanged until `wait` returns; after that, targets may be used on any stream.
    """

    def __init__(self, device: torch.device, buffers: int = BUFFERS, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._device = device
        self._size = buffer_bytes
        self._pool = ThreadPoolExecutor(buffers, thread_name_prefix="upload")
        self._free: SimpleQueue[tuple[Tensor, Any]] = SimpleQueue()
        self._pending: list[Future[None]] = []
        cuda = device.type == "cuda"
        for _ in range(buffers):
            staging = torch.empty(buffer_bytes, dtype=torch.uint8, pin_memory=cuda)
            self._free.put((staging, torch.cuda.Stream(device) if cuda else None))
        self._allocated = torch.cuda.current_stream(device) if cuda else None

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Start to copy `source`, on the CPU, to `target`; both are contiguous and have the same number of bytes."""
        data, destination = source.reshape(-1).view(torch.uint8), target.reshape(-1).view(torch.uint8)
        if data.numel() != destination.numel():
            raise ValueError(f"{data.numel()} bytes do not fill {destination.numel()}")
        # The allocator may reuse memory that earlier work of this stream still reads: copies wait for that work.
        ready = None if self._allocated is None else self._allocated.record_event()
        for start in range(0, data.numel(), self._size):
            piece = slice(start, start + self._size)
            self._pending.append(self._pool.submit(self._send, data[piece], destination[piece], ready))

    def _send(self, source: Tensor, target: Tensor, ready: Any) -> None:
        staging, stream = self._free.get()
        try:
            part = staging[: source.numel()]
            part.copy_(source)
            if stream is None:
                target.copy_(part)
                return
            with torch.cuda.stream(stream):
                stream.wait_event(ready)
                target.copy_(part, non_blocking=True)
            stream.synchronize()
        finally:
            self._free.put((staging, stream))

    def wait(self) -> None:
        """Return when every copy has ended; raise the error of a copy that failed."""
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()

    def __enter__(self) -> UploadRing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=error is not None)
