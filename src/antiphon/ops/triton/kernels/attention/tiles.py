"""Division of sequences laid end to end into tiles of queries, on the device."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def list_tiles(starts, tiles, first, num_requests, num_tiles, TOKENS, REQUESTS: tl.constexpr, BLOCK: tl.constexpr):
    """Write tiles[t] = (request, first query in the request's chunk), for the requests from `first` on.

    Request r has the queries starts[r] to starts[r + 1]. Each program writes the tiles of one request; the last program
    fills the rest of the list with request -1. REQUESTS is not less than `num_requests`, the number of all requests.
    """
    request = first + tl.program_id(0)
    every = tl.arange(0, REQUESTS)
    counted = (every >= first) & (every < num_requests)
    begin = tl.load(starts + every, mask=counted, other=0).to(tl.int32)
    end = tl.load(starts + every + 1, mask=counted, other=0).to(tl.int32)
    counts = (end - begin + TOKENS - 1) // TOKENS
    low = tl.sum(tl.where(every < request, counts, 0), 0)
    high = low + tl.sum(tl.where(every == request, counts, 0), 0)
    owner = request
    if request == num_requests:
        high = num_tiles
        owner = -1
    for start in range(low, high, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < high
        tl.store(tiles + 2 * index, tl.zeros((BLOCK,), tl.int32) + owner, mask=inside)
        tl.store(tiles + 2 * index + 1, (index - low) * TOKENS, mask=inside)
