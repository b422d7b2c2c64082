"""Errors that a user can cause. Each message names the cause and has the numbers."""

from __future__ import annotations


class AntiphonError(Exception):
    """Base class of all errors that Antiphon raises on purpose."""


class ModelNotFoundError(AntiphonError):
    """A model name, path or hub reference that does not exist."""


class FetchError(AntiphonError):
    """A download that failed; it leaves no unverified file in the model folder."""


class DiskFullError(FetchError):
    """A download that failed because a disk is full."""


class DownloadCancelledError(AntiphonError):
    """A download that was cancelled on request; the next one reuses files that were complete."""


class HomeError(AntiphonError):
    """A folder for models that cannot be used: it is a file, or it may not be read or written."""


class CheckpointError(AntiphonError):
    """A model file that is truncated, malformed, hostile, or lacks what the model needs."""


class UnsupportedError(AntiphonError):
    """Something well-formed that this build cannot run: an architecture, tensor type or tokenizer."""


class UnrecordableError(UnsupportedError):
    """A forward that cannot be recorded as a program, because it does more than operations and views."""


class TokenizerError(AntiphonError):
    """A vocabulary that is inconsistent, or text that it cannot encode."""


class TemplateError(AntiphonError):
    """A chat template that does not compile, or that rejects the messages."""


class InvalidRequestError(AntiphonError):
    """A request with invalid arguments."""


class UsageError(InvalidRequestError):
    """A command line with a wrong option value, or options that exclude each other: exit code 2."""


class ContextLengthError(InvalidRequestError):
    """A request that can never fit the model's context or its memory."""


class TooManyTokensError(ContextLengthError):
    """A text with more tokens than its caller allows. The count of a long text is a lower bound."""

    def __init__(self, num_tokens: int, limit: int, is_exact: bool = False) -> None:
        self.num_tokens = num_tokens
        self.limit = limit
        #: Count for error messages, or the limit if counting stopped beyond it.
        self.is_exact = is_exact
        self.counted = str(num_tokens) if is_exact else f"more than {limit}"
        super().__init__(f"the text has {self.counted} tokens; {limit} are allowed")


class OverloadedError(AntiphonError):
    """More work than the engine accepts at once; the caller may try again later."""


class MemoryBudgetError(AntiphonError):
    """A model that can never fit the memory budget."""


class LoadTimeoutError(AntiphonError):
    """A model or adapter whose loading took longer than allowed, and was cancelled."""


class LoadCancelledError(AntiphonError):
    """A model or adapter whose loading was cancelled on request."""


class OutOfDeviceMemoryError(MemoryBudgetError):
    """A load or a step that needs more memory than its device has left."""


class MemoryBusyError(AntiphonError):
    """A model without room at present: other models are in use or pinned. The caller may try again later."""


class ModelInUseError(AntiphonError):
    """A model that cannot be unloaded while requests use it."""


class EngineError(AntiphonError):
    """A request that failed inside the engine, with the cause."""


class DeviceError(EngineError):
    """A device that failed and that this process can no longer use: the engine stops with it."""


class AudioError(AntiphonError):
    """Sound that cannot be decoded or encoded, or that exceeds a limit."""


class MissingDependencyError(AntiphonError):
    """A missing package or program that a feature needs on this machine. The request is not at fault."""


def check_values(*checks: tuple[bool, str, object, str]) -> None:
    """Reject the first value whose check fails. A check is (holds, name, value, what the value must be)."""
    for holds, name, value, wanted in checks:
        if not holds:
            raise InvalidRequestError(f"{name} is {value!r}; it must be {wanted}")
