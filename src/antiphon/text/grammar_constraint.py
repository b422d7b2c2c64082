"""`GrammarConstraint`: the tokens that one answer may continue with, computed by background threads."""

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

#: Allowed tokens: one bit per token of the vocabulary, lowest bit first.
Bitmask: TypeAlias = NDArray[np.int32]

Work: TypeAlias = Callable[[], None]

#: Stack size for the deepest recursion that a grammar within the limits of `GrammarSpec` causes in its compiler.
STACK_BYTES = 64 << 20

_stack_size_lock = threading.Lock()


def deep_thread(name: str, target: Callable[..., None], *arguments: Any, daemon: bool = False) -> threading.Thread:
    """Start a thread that runs `target` on a stack of `STACK_BYTES`, since platform defaults are smaller."""
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=daemon)
    with _stack_size_lock:
        previous = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(previous)
    return thread


class MaskWorkers:
    """Threads that compute the masks of all constraints of a model; they end when this object is garbage-collected."""

    def __init__(self, num_threads: int) -> None:
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        threads = [deep_thread(f"grammar-mask-{n}", _work, self._queue, daemon=True) for n in range(num_threads)]
        weakref.finalize(self, _end, self._queue, threads)

    def submit(self, work: Work) -> None:
        self._queue.put(work)


def _work(queue: SimpleQueue[Work | None]) -> None:
    while (work := queue.get()) is not None:
        work()
        del work  # an idle thread must not keep an ended request alive


def _end(queue: SimpleQueue[Work | None], threads: list[threading.Thread]) -> None:
    """End the threads before the interpreter shuts down, which would crash a thread inside the matcher."""
    for _ in threads:
        queue.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(10)


@dataclass(frozen=True)
class EndTokens:
    """The tokens that end an answer, and the mask that allows only them."""

    ids: frozenset[int]
    mask: Bitmask

    @classmethod
    def of(cls, ids: frozenset[int], vocab_size: int) -> EndTokens:
        bits = np.zeros(-(-vocab_size // 32) * 32, dtype=np.uint8)
        bits[sorted(ids)] = 1
        return cls(ids, np.packbits(bits, bitorder="little").view(np.int32))


def compute_mask(matcher: Any, num_words: int) -> Bitmask:
    """Return the matcher's next mask; the interpreter lock is released meanwhile."""
    mask = np.empty(num_words, dtype=np.int32)
    matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
    return mask


class GrammarConstraint:
    """The state of one answer under a grammar; used by one thread at a time.

    `advance` and `draft` return at once, and their masks are computed in the background; all other methods wait for
    them. A returned mask never changes. When the grammar is complete, the mask allows the end tokens; when nothing can
    follow, it allows only them.
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
        self._computing = threading.Lock()  # held from `advance` or `draft` until the masks are computed

    def advance(self, token: int) -> None:
        """Take the sampled token and begin to compute the next mask.

        Raise `InvalidRequestError`, with the state unchanged, if the last mask did not allow the token. This happens
        only if other options of the request exclude every token that the mask allows.
        """
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
        """Consume a token and compute the next mask, in a worker thread, for `advance`."""
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
        """Return the allowed tokens, or raise `InvalidRequestError` if the grammar is too complex to go on."""
        with self._computing:
            if self._failure is not None:
                raise type(self._failure)(str(self._failure))
            return self._mask

    def forced(self) -> list[int]:
        """Return tokens of the text that must come next, as the tokenizer encodes it; masks may allow others too."""
        with self._computing:
            if self._failure is not None or self._is_stopped:
                return []
            return list(self._matcher.compute_ff_tokens())

    def num_allowed(self, tokens: Sequence[int]) -> int:
        """Return the length of the longest prefix of these tokens that the grammar allows."""
        with self._computing:
            if self._failure is not None or self._is_stopped:
                return 0
            return int(self._matcher.validate_tokens(list(tokens)))

    def draft(self, tokens: Sequence[int]) -> None:
        """Begin to compute the masks after each of these tokens, all checked by `num_allowed`.

        The state of the answer does not change; `draft_masks` returns the masks.
        """
        self._computing.acquire()
        self._workers.submit(partial(self._follow, list(tokens)))

    def draft_masks(self) -> list[Bitmask]:
        """Return a mask per token of the last draft; raise `InvalidRequestError` if the grammar is too complex."""
        with self._computing:
            if self._draft_failure is not None:
                raise type(self._draft_failure)(str(self._draft_failure))
            return self._draft_masks

    def _follow(self, tokens: list[int]) -> None:
        """Compute the masks of a draft, in a worker thread, on a copy: a failed matcher cannot be rolled back."""
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
        """Whether `mask` returns without waiting."""
        return not self._computing.locked()

    @property
    def is_stopped(self) -> bool:
        """Whether the answer is complete and only an end token can follow."""
        with self._computing:
            return self._is_stopped

    def clone(self) -> GrammarConstraint:
        """Return a constraint for another answer that continues from this state."""
        mask = self.mask()
        return GrammarConstraint(self._matcher.deep_copy(), mask, self._ends, self._workers, self._is_stopped)


def _too_complex(matcher: Any) -> InvalidRequestError:
    """Build the error for a limit of the matcher that the answer exceeded after its grammar had compiled."""
    cause = error_summary(matcher.get_error())
    return InvalidRequestError(f"the grammar or schema is too complex to follow to the end of the answer: {cause}")


def _internal(error: BaseException) -> EngineError:
    return EngineError(f"structured output failed: {type(error).__name__}: {error}")


def error_summary(message: str) -> str:
    """Return the matcher's error in one line: its first line, and the regex parser's message if there is one."""
    lines = [line.strip() for line in message.splitlines()]
    first = next((line for line in lines if line), "unknown error")
    cause = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), None)
    summary = first.removesuffix(":") if cause is None else f"{first.removesuffix(':')}: {cause}"
    return summary if len(summary) <= 400 else summary[:400] + "…"
