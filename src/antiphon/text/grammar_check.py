"""Trial compilation of grammars in a process that can be killed."""

from __future__ import annotations

import pickle
import threading

from antiphon.errors import InvalidRequestError, OverloadedError
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.limited_process import LimitedProcesses, LimitExceededError, limited_processes

MODULE = "antiphon.text.grammar_worker"
COMPILE_SECONDS = 5.0
MAX_PROCESSES = 2
#: Maximum trials that run or wait at the same time.
MAX_CHECKS = 16
#: Maximum number of remembered grammars that passed.
MAX_REMEMBERED = 512
#: Maximum size of plain JSON schemas, which compile in milliseconds if they have no patterns.
PLAIN_BYTES = 8_192
PLAIN_CHOICES = 256


class GrammarChecks:
    """A check that compiles every grammar, unless it is plain, once in another process. Thread-safe."""

    def __init__(self, processes: LimitedProcesses | None = None, seconds: float = COMPILE_SECONDS) -> None:
        self._processes = processes
        self._seconds = seconds
        self._passed: dict[GrammarSpec | bytes, None] = {}
        self._lock = threading.Lock()
        self._turns = threading.Semaphore(MAX_CHECKS)

    def check(self, spec: GrammarSpec) -> None:
        """Raise `InvalidRequestError` for a grammar that is wrong, or that takes too much time or memory."""
        if is_plain(spec):
            return
        request = pickle.dumps(spec)
        with self._lock:
            if request in self._passed:
                return
        if not self._turns.acquire(blocking=False):
            raise OverloadedError(f"{MAX_CHECKS} grammars are being compiled; try again later")
        try:
            processes = self._processes or limited_processes(MODULE, MAX_PROCESSES)
            fault = processes.ask(request, self._seconds).decode("utf-8", "replace")
        except LimitExceededError as error:
            raise InvalidRequestError(f"the {spec.kind} is too complex: compiling it {error}") from None
        finally:
            self._turns.release()
        if fault:
            raise InvalidRequestError(fault)
        with self._lock:
            while len(self._passed) >= MAX_REMEMBERED:
                del self._passed[next(iter(self._passed))]
            self._passed[request] = None


def is_plain(spec: GrammarSpec) -> bool:
    """Return whether the grammar certainly compiles in milliseconds."""
    if spec.choice is not None:
        return len(spec.choice) <= PLAIN_CHOICES
    if spec.json_object or spec.json_schema is not None:
        text = spec.schema_text
        return len(text) <= PLAIN_BYTES and "pattern" not in text and "allOf" not in text
    return False
