"""`KVManager`: block tables of one model's requests, with growth, sharing, windows, swapping and the prefix cache."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass

from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.pool import NO_BLOCK, BlockPool, CachedPrefix
from antiphon.engine.kv.prefix import chain, prefix_seed
from antiphon.engine.plan import BlockCopy, StepPlan
from antiphon.engine.request import Request


@dataclass(frozen=True)
class GroupSpec:
    """Properties of a cache group that the bookkeeping needs.

    With a `window`, blocks entirely before it are freed, except those of the first `sink_tokens`. A `cross` group holds
    a request's `cross_tokens` from its start and never grows.
    """

    name: str
    block_bytes: int
    window: int | None = None
    sink_tokens: int = 0
    cross: bool = False


@dataclass(frozen=True)
class KVUsage:
    """Block counts over all groups, and the bytes of the owned blocks."""

    free: int
    cached: int
    owned: int
    owned_bytes: int


class KVManager:
    """Block bookkeeping of one model: a table of block ids per request and group, releasable at any time."""

    def __init__(
        self,
        arena: SlabArena,
        groups: list[GroupSpec],
        block_tokens: int,
        *,
        max_step_tokens: int = 1 << 30,
        revision: str = "",
        prefix_caching: bool = True,
    ) -> None:
        self.groups = groups
        self.block_tokens = block_tokens
        self.arena = arena
        self.pools = [BlockPool(arena, group.block_bytes) for group in groups]
        self.prefix_caching = prefix_caching
        self._has_cross = any(group.cross for group in groups)
        self._revision = revision
        self._max_step_tokens = max_step_tokens
        self._growing = [index for index, group in enumerate(groups) if not group.cross]
        self._windowed = [index for index in self._growing if groups[index].window is not None]
        self._holders: dict[int, Request] = {}  # requests with tables, by identity
        self._room: dict[int, int] = {}  # `max_tokens_alone` by cross tokens

    # -- sizes --------------------------------------------------------------------------------------------------

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_tokens)

    def slabs_for(self, num_tokens: int, cross_tokens: int = 0) -> int:
        """Return the maximum number of slabs of a lone request; a window group holds its window and one step."""
        slabs = 0
        for spec, pool in zip(self.groups, self.pools, strict=True):
            blocks = self.blocks_for(cross_tokens if spec.cross else num_tokens)
            if spec.window is not None:
                # Neither end of the window is on a block boundary, and blocks are freed only when another is full.
                held = self.blocks_for(spec.window + self._max_step_tokens) + 2 + self.blocks_for(spec.sink_tokens)
                blocks = min(blocks, held)
            slabs += -(-blocks // pool.blocks_per_slab)
        return slabs

    def max_tokens_alone(self, cross_tokens: int = 0) -> int:
        """Return the length of the longest request that the empty arena could hold."""
        if cross_tokens not in self._room:
            self._room[cross_tokens] = self._most(1 << 30, lambda length: self.slabs_for(length, cross_tokens))
        return self._room[cross_tokens]

    def _most(self, limit: int, slabs: Callable[[int], int]) -> int:
        """Return the largest number from 0 to `limit` whose `slabs` fit the arena."""
        return bisect_right(range(1, limit + 1), self.arena.num_slabs, key=slabs)

    def capacity(self, request: Request) -> int:
        """Return the number of tokens that the request's blocks have slots for."""
        return len(request.tables[self._growing[0]]) * self.block_tokens

    def held_blocks(self, num_tokens: int, cross_tokens: int = 0) -> list[int]:
        """Return the number of blocks per group for this many computed tokens, without freed window blocks."""
        held = []
        for group, spec in enumerate(self.groups):
            blocks = self.blocks_for(cross_tokens if spec.cross else num_tokens)
            if spec.window is not None:
                first = min(self._first_needed(group, num_tokens), blocks)
                blocks -= first - min(self._num_sink_blocks(group), first)
            held.append(blocks)
        return held

    def num_fitting(self, num_tokens: int, cross_tokens: int = 0) -> int:
        """Return how many requests of this length fit the arena at once without a shared prefix."""
        held = self.held_blocks(num_tokens, cross_tokens)
        pairs = [(blocks, pool.blocks_per_slab) for blocks, pool in zip(held, self.pools, strict=True)]
        limit = self.arena.num_slabs * max(size for _, size in pairs)
        return self._most(limit, lambda count: sum(-(-count * blocks // size) for blocks, size in pairs))

    def usage(self) -> KVUsage:
        counts = [pool.counts() for pool in self.pools]
        return KVUsage(
            free=sum(count.free for count in counts),
            cached=sum(count.cached for count in counts),
            owned=sum(count.owned for count in counts),
            owned_bytes=sum(count.owned * pool.block_bytes for count, pool in zip(counts, self.pools, strict=True)),
        )

    # -- the prefix cache ---------------------------------------------------------------------------------------

    def _digests(self, request: Request, num_blocks: int) -> list[bytes]:
        """Return the digests of the request's full blocks, at least the first `num_blocks`; compute missing ones."""
        digests = request.digests
        size = self.block_tokens
        while len(digests) < num_blocks:
            index = len(digests)
            parent = digests[-1] if digests else self._seed(request)
            digests.append(chain(parent, request.tokens[index * size : (index + 1) * size]))
        return digests

    def _seed(self, request: Request) -> bytes:
        return prefix_seed(self._revision, request.cache_salt, request.content)

    def _may_share(self, request: Request) -> bool:
        """Return whether the request may use the prefix cache: cross blocks are only identified by `content`."""
        return self.prefix_caching and (not self._has_cross or bool(request.content))

    def _find(self, request: Request, group: int, index: int) -> int | None:
        size = self.block_tokens
        tokens = tuple(request.tokens[index * size : (index + 1) * size])
        return self.pools[group].find(request.digests[index], tokens)

    def attach_prefix(self, request: Request) -> int:
        """Give a request without blocks the longest cached prefix; return the number of its tokens.

        At least one token is left to compute. A window group needs only the blocks that the next token can see.
        """
        assert not request.tables
        self._hold(request)
        request.num_dropped_blocks = [0] * len(self.groups)
        request.cross_filled = False
        if not self._may_share(request) or request.reads_whole_prompt:
            return 0
        limit = (request.num_tokens - 1) // self.block_tokens
        self._digests(request, limit)
        full = [index for index in self._growing if self.groups[index].window is None]
        found: list[dict[int, int]] = [{} for _ in self.groups]  # by group: block index → block id
        length = limit
        for group in full:
            for index in range(length):
                block = self._find(request, group, index)
                if block is None:
                    length = index
                    break
                found[group][index] = block
        while (missing := self._window_hit(request, length, found)) is not None:
            length = missing  # every longer prefix needs the missing block too
        for group in self._growing:
            table = [found[group].get(index, NO_BLOCK) for index in range(length)]
            for block in table:
                if block != NO_BLOCK:
                    self.pools[group].share(block)
            request.tables[group] = table
        for group in self._windowed:
            request.num_dropped_blocks[group] = self._first_needed(group, length * self.block_tokens)
        request.num_remembered_blocks = length
        request.num_computed_tokens = length * self.block_tokens
        return length * self.block_tokens

    def _window_hit(self, request: Request, length: int, found: list[dict[int, int]]) -> int | None:
        """Find the window groups' blocks that a prefix of `length` blocks needs, and put them into `found`.

        Return the index of the first missing block, or None if all are cached.
        """
        for group in self._windowed:
            found[group] = {}
            for index in self._needed(group, length):
                block = self._find(request, group, index)
                if block is None:
                    return index
                found[group][index] = block
        return None

    def _first_needed(self, group: int, num_computed: int) -> int:
        """Return the index of the first block that a token at position `num_computed` sees through the window."""
        window = self.groups[group].window
        assert window is not None
        return max(0, num_computed - window + 1) // self.block_tokens

    def _hold(self, request: Request) -> None:
        request.tables = [[] for _ in self.groups]
        self._holders[id(request)] = request

    def _num_sink_blocks(self, group: int) -> int:
        return self.blocks_for(self.groups[group].sink_tokens)

    def _needed(self, group: int, length: int) -> list[int]:
        first = self._first_needed(group, length * self.block_tokens)
        sinks = min(self._num_sink_blocks(group), first)
        return [*range(sinks), *range(first, length)]

    def remember(self, request: Request) -> None:
        """Add the request's full blocks to the prefix cache."""
        num_full = request.num_computed_tokens // self.block_tokens
        if not self._may_share(request) or num_full <= request.num_remembered_blocks:
            return
        digests, size = self._digests(request, num_full), self.block_tokens
        for index in range(request.num_remembered_blocks, num_full):
            prefix = CachedPrefix(digests[index], tuple(request.tokens[index * size : (index + 1) * size]))
            for group in self._growing:
                block = request.tables[group][index]
                if block != NO_BLOCK:
                    self.pools[group].remember(block, prefix)
        request.num_remembered_blocks = num_full

    # -- growing ------------------------------------------------------------------------------------------------

    def grow(self, request: Request, num_tokens: int, plan: StepPlan, may_pack: bool = True) -> bool:
        """Allocate blocks for the request's first `num_tokens` tokens, and copy a shared block that would be written.

        On success, the plan holds the new table entries and the copies, and the result is True. On failure, the request
        has as many blocks as before. With `may_pack`, blocks may be moved together to free a slab.
        """
        if request.has_shared_tail and not self._own_tail(request, plan, may_pack):
            return False
        wanted = self.blocks_for(num_tokens)
        added = [0] * len(self.groups)
        for group, spec in enumerate(self.groups):
            table = request.tables[group]
            count = (self.blocks_for(request.cross_tokens) if spec.cross else wanted) - len(table)
            while added[group] < count:
                block = self._allocate(group, plan, may_pack)
                if block is None:
                    for undone, number in enumerate(added):
                        for _ in range(number):
                            self.pools[undone].release(request.tables[undone].pop())
                    return False
                table.append(block)
                added[group] += 1
        if request.row >= 0:
            for group, count in enumerate(added):
                table, entries = request.tables[group], self.pools[group].entries
                for index in range(len(table) - count, len(table)):
                    plan.table_updates.append((request.row, group, index, entries[table[index]]))
        return True

    def _allocate(self, group: int, plan: StepPlan, may_pack: bool) -> int | None:
        """Allocate a block of the group; return None if none is left. Packing may change block ids in tables."""
        block = self.pools[group].allocate()
        while block is None and may_pack and self._pack(plan):
            block = self.pools[group].allocate()
        return block

    def needs_room(self, request: Request, num_tokens: int) -> bool:
        """Return whether `grow` would allocate a block."""
        if request.has_shared_tail:
            return True
        wanted = self.blocks_for(num_tokens)
        return any(len(request.tables[group]) < wanted for group in self._growing)

    def _pack(self, plan: StepPlan) -> bool:
        """Empty one slab of a group whose blocks are scattered; return False if no group's blocks are."""
        group = next((index for index, pool in enumerate(self.pools) if pool.is_scattered), None)
        if group is None:
            return False
        pool = self.pools[group]
        moved = pool.pack()
        entries = pool.entries
        plan.moves += [BlockCopy(entries[old], entries[new], pool.block_bytes) for old, new in moved.items()]
        for request in self._holders.values():
            table = request.tables[group]
            for index, block in enumerate(table):
                if block in moved:
                    table[index] = moved[block]
                    if request.row >= 0:
                        plan.table_updates.append((request.row, group, index, entries[table[index]]))
        return True

    def _own_tail(self, request: Request, plan: StepPlan, may_pack: bool) -> bool:
        """Copy the block that the next token is written to if it is shared; return False if no block is free."""
        index = request.num_scheduled_tokens // self.block_tokens
        for group in self._growing:
            pool, table = self.pools[group], request.tables[group]
            if index >= len(table) or table[index] == NO_BLOCK or pool.ref_counts[table[index]] == 1:
                continue
            new = self._allocate(group, plan, may_pack)
            if new is None:
                return False
            old, table[index] = table[index], new
            plan.moves.append(BlockCopy(pool.entries[old], pool.entries[new], pool.block_bytes))
            if request.row >= 0:
                plan.table_updates.append((request.row, group, index, pool.entries[new]))
            pool.release(old)
        request.has_shared_tail = False
        return True

    def fork(self, parent: Request, child: Request, num_tokens: int) -> None:
        """Share the blocks of the parent's first `num_tokens` computed tokens with a child that has no blocks."""
        count = self.blocks_for(num_tokens)
        self._hold(child)
        for group, table in enumerate(parent.tables):
            child.tables[group] = list(table) if self.groups[group].cross else table[:count]
            for block in child.tables[group]:
                if block != NO_BLOCK:
                    self.pools[group].share(block)
        child.num_dropped_blocks = list(parent.num_dropped_blocks)
        child.num_computed_tokens = num_tokens
        child.digests = parent.digests[: num_tokens // self.block_tokens]
        child.num_remembered_blocks = min(parent.num_remembered_blocks, num_tokens // self.block_tokens)
        child.has_shared_tail = parent.has_shared_tail = True
        child.cross_filled = parent.cross_filled

    def can_fork(self, parent: Request, num_tokens: int) -> bool:
        """Return whether the parent still has every block that a request of `num_tokens` computed tokens would see."""
        if parent.num_computed_tokens < num_tokens or not parent.tables or parent.swapped:
            return False
        return all(
            parent.num_dropped_blocks[group] <= self._first_needed(group, num_tokens) for group in self._windowed
        )

    # -- freeing ------------------------------------------------------------------------------------------------

    def drop_out_of_window(self, request: Request) -> None:
        """Free the blocks that no later token of the request can see."""
        for group in self._windowed:
            first = self._first_needed(group, request.num_computed_tokens)
            table, pool = request.tables[group], self.pools[group]
            start = max(request.num_dropped_blocks[group], self._num_sink_blocks(group))
            for index in range(start, min(first, len(table))):
                if table[index] != NO_BLOCK:
                    pool.release(table[index])
                    table[index] = NO_BLOCK
            request.num_dropped_blocks[group] = max(request.num_dropped_blocks[group], first)

    def release(self, request: Request) -> None:
        """Free all blocks of the request, last block first, so that the end of a cached prefix is evicted first."""
        for group, table in enumerate(request.tables):
            pool = self.pools[group]
            for block in reversed(table):
                if block != NO_BLOCK:
                    pool.release(block)
        request.tables = []
        self._holders.pop(id(request), None)
        request.num_dropped_blocks = []
        request.num_remembered_blocks = 0
        request.has_shared_tail = False

    # -- swapping -----------------------------------------------------------------------------------------------

    def spans(self, request: Request) -> list[tuple[int, int]]:
        """Return the table entry and the bytes of every block that the request holds, in a fixed order."""
        return [
            (self.pools[group].entries[block], self.pools[group].block_bytes)
            for group, table in enumerate(request.tables)
            for block in table
            if block != NO_BLOCK
        ]

    def swap_out(self, request: Request) -> list[list[bool]]:
        """Free the blocks and return, per group, which table entries had one; the caller has planned the copy."""
        held = [[block != NO_BLOCK for block in table] for table in request.tables]
        dropped = request.num_dropped_blocks
        self.release(request)
        request.num_dropped_blocks = dropped
        return held

    def swap_in(self, request: Request, held: list[list[bool]], plan: StepPlan, may_pack: bool = True) -> bool:
        """Allocate a block for every entry that had one; return False, with nothing allocated, if there are too few."""
        dropped = request.num_dropped_blocks
        self._hold(request)
        for group, had_block in enumerate(held):
            for had in had_block:
                block = self._allocate(group, plan, may_pack) if had else NO_BLOCK
                if block is None:
                    self.release(request)
                    request.num_dropped_blocks = dropped
                    return False
                request.tables[group].append(block)
        request.num_dropped_blocks = dropped
        return True

    # -- integrity ----------------------------------------------------------------------------------------------

    def table_entries(self, request: Request, group: int) -> list[int]:
        """Return the request's table in arena units, as executors read it; an entry without a block is 0."""
        entries = self.pools[group].entries
        return [entries[block] if block != NO_BLOCK else 0 for block in request.tables[group]]

    def close(self) -> None:
        for pool in self.pools:
            pool.close()

    def check_integrity(self, requests: Collection[Request]) -> None:
        """Assert that every block is free, cached or owned, and owned exactly as often as these requests hold it."""
        refs: list[dict[int, int]] = [{} for _ in self.groups]
        for request in requests:
            for group, table in enumerate(request.tables):
                for block in table:
                    if block != NO_BLOCK:
                        refs[group][block] = refs[group].get(block, 0) + 1
        for pool, expected in zip(self.pools, refs, strict=True):
            pool.check_integrity(expected)
        assert set(self._holders) == {id(request) for request in requests if request.tables}, "tables without a holder"
        self.arena.check_integrity()
