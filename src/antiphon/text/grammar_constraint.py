"""`GrammarConstraint`: what one answer may say next. Its masks are computed by threads of their own."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import AntiphonError, EngineError, InvalidRequestError

#: One bit per token of the vocabulary, the lowest bit first; set means allowed.
Bitmask: TypeAlias = NDArray[np.int32]

#: What a thread is to do for a constraint.
Work: TypeAlias = Callable[[], None]

#: Enough for the deepest recursion that a grammar within the limits of `GrammarSpec` drives its compiler into.
STACK_BYTES = 64 << 20

_stack_size_lock = threading.Lock()


def deep_thread(name: str, target: Callable[..., None], *arguments: Any, daemon: bool = False) -> threading.Thread:
    """A thread that runs `target` on a stack of `STACK_BYTES`, whatever the platform gives by default."""
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=daemon)
    with _stack_size_lock:
        previous = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(previous)
    return thread


class MaskWorkers:
    """Threads that compute the masks of all constraints of a model; they end when nothing refers to this object."""

    def __init__(self, num_threads: int) -> None:
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        threads = [deep_thread(f"grammar-mask-{n}", _work, self._queue, daemon=True) for n in range(num_threads)]
        weakref.finalize(self, _end, self._queue, threads)

    def submit(self, work: Work) -> None:
        self._queue.put(work)


def _work(queue: SimpleQueue[Work | None]) -> None:
    while (work := queue.get()) is not None:
        work()
        del work  # a request that has ended is not kept alive by an idle thread


def _end(queue: SimpleQueue[Work | None], threads: list[threading.Thread]) -> None:
    """Runs at the latest before the interpreter is torn down, which a thread inside the matcher would not survive."""
    for _ in threads:
        queue.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(10)


@dataclass(frozen=True)
class EndTokens:
    """The tokens that end an answer, and the mask that allows nothing else."""

    ids: frozenset[int]
    mask: Bitmask

    @classmethod
    def of(cls, ids: frozenset[int], vocab_size: int) -> EndTokens:
        bits = np.zeros(-(-vocab_size // 32) * 32, dtype=np.uint8)
        bits[sorted(ids)] = 1
        return cls(ids, np.packbits(bits, bitorder="little").view(np.int32))


def compute_mask(matcher: Any, num_words: int) -> Bitmask:
    """The matcher's next mask; the interpreter runs on meanwhile."""
    mask = np.empty(num_words, dtype=np.int32)
    matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
    return mask


class GrammarConstraint:
    """The state of one answer under a grammar; used by one thread at a time.

    `advance` returns at once and the next mask is computed in the background, and so are the masks of a draft; all
    other methods wait for them. A mask is never changed once it was returned. When the grammar is complete, the tokens
    that end an answer are allowed; when it cannot go on, nothing else is.
    """

    def __init__(self, matcher: Any, mask: Bitmask, ends: EndTokens, workers: MaskWorkers, is_stopped: bool) -> None:
        self._matcher = matcher
        self._mask = mask
        self._ends = ends
        self._workers = workers
        self._is_stopped = is_stopped
        self._failure: AntiphonError | None = None
        self._draft_masks: list[Bitmask] = []
        self._draft_failure: AntiphonError | None = None
        self._computing = threading.Lock()  # held from `advance` until its mask is there

    def advance(self, token: int) -> None:
        """Take the token that was drawn; `InvalidRequestError` if the last mask did not allow it, and nothing has
        changed. Such a token is drawn only where the request's other rules exclude all that the mask allows."""
        mask = self.mask()
        if not (0 <= token < 32 * len(mask) and mask[token >> 5] >> (token & 31) & 1):
            raise InvalidRequestError(
                "no token is left to choose from: the request excludes, by logit_bias, allowed_token_ids or the like, "
                "every token that its grammar or schema allows at this point"
            )
        if token in self._ends.ids:
            self._is_stopped = True
            self._mask = self._ends.mask
            return
        self._computing.acquire()
        self._workers.submit(partial(self.take, token))

    def take(self, token: int) -> None:
        """What a worker does of `advance`."""
        try:
            matcher = self._matcher
            matcher.consume_token(token)
            mask = compute_mask(matcher, len(self._mask))
            if matcher.is_error():
                self._failure = _too_complex(matcher)
            self._is_stopped = matcher.is_stopped()
            self._mask = mask
        except BaseException as error:  # a panic of the matcher is no `Exception`
            self._failure = _internal(error)
        finally:
            self._computing.release()

    def mask(self) -> Bitmask:
        """The tokens allowed next; `InvalidRequestError` if the grammar turned out too complex to follow further."""
        with self._computing:
            if self._failure is not None:
                raise type(self._failure)(str(self._failure))
            return self._mask

    def forced(self) -> list[int]:
        """Tokens that spell what must come next, as the tokenizer would; an answer may spell it otherwise."""
        with self._computing:
            if self._failure is not None or self._is_stopped:
                return []
            return list(self._matcher.compute_ff_tokens())

    def num_allowed(self, tokens: Sequence[int]) -> int:
        """How many of these tokens may come next, one after the other."""
        with self._computing:
            if self._failure is not None or self._is_stopped:
                return 0
            return int(self._matcher.validate_tokens(list(tokens)))

    def draft(self, tokens: Sequence[int]) -> None:
        """Begin to compute the masks after each of these tokens, which `num_allowed` has passed; nothing advances."""
        self._computing.acquire()
        self._workers.submit(partial(self._follow, list(tokens)))

    def draft_masks(self) -> list[Bitmask]:
        """The masks after each token of the last draft; `InvalidRequestError` if the grammar is too complex for it."""
        with self._computing:
            if self._draft_failure is not None:
                raise type(self._draft_failure)(str(self._draft_failure))
            return self._draft_masks

    def _follow(self, tokens: list[int]) -> None:
        """What a worker does of `draft`: on a copy, because a matcher that fails cannot be rolled back."""
        self._draft_masks, self._draft_failure = [], None
        try:
            matcher = self._matcher.deep_copy()
            for token in tokens:
                matcher.consume_token(token)
                self._draft_masks.append(compute_mask(matcher, len(self._mask)))
                if matcher.is_error():
                    self._draft_failure = _too_complex(matcher)
                    break
        except BaseException as error:  # a panic of the matcher is no `Exception`
            self._draft_failure = _internal(error)
        finally:
            self._computing.release()

    @property
    def is_ready(self) -> bool:
        """Whether `mask` would return without waiting."""
        return not self._computing.locked()

    @property
    def is_stopped(self) -> bool:
        """Whether the answer is complete and nothing but its end can follow."""
        with self._computing:
            return self._is_stopped

    def clone(self) -> GrammarConstraint:
        """Another answer that goes on from the same point, independently."""
        mask = self.mask()
        return GrammarConstraint(self._matcher.deep_copy(), mask, self._ends, self._workers, self._is_stopped)


def _too_complex(matcher: Any) -> InvalidRequestError:
    """Return the error for a limit of the matcher that only an answer's text reached."""
    cause = error_summary(matcher.get_error())
    return InvalidRequestError(f"the grammar or schema is too complex to follow to the end of the answer: {cause}")


def _internal(error: BaseException) -> EngineError:
    return EngineError(f"structured output failed: {type(error).__name__}: {error}")


def error_summary(message: str) -> str:
    """The matcher's complaint in one line: where, and the regex parser's own words if it was that."""
    lines = [line.strip() for line in message.splitlines()]
    first = next((line for line in lines if line), "unknown error")
    cause = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), None)
    summary = first.removesuffix(":") if cause is None else f"{first.removesuffix(':')}: {cause}"
    return summary if len(summary) <= 400 else summary[:400] + "…"
