"""Errors that a user can cause. Each message names the thing at fault and carries the numbers."""

from __future__ import annotations


class AntiphonError(Exception):
    """Base of every error that Antiphon raises on purpose."""


class ModelNotFoundError(AntiphonError):
    """A model name, path or hub reference that leads nowhere."""


class FetchError(AntiphonError):
    """A download that could not be completed; nothing half-written is left behind."""


class DownloadCancelledError(AntiphonError):
    """A download that was ended on request; what was received completely is used by the next one."""


class HomeError(AntiphonError):
    """A folder for models that cannot be used: a file is in its place, or it may not be read or written."""


class CheckpointError(AntiphonError):
    """A model file that is truncated, malformed, hostile, or lacks what the model needs."""


class UnsupportedError(AntiphonError):
    """Something well-formed that this build cannot run: an architecture, tensor type or tokenizer."""


class UnrecordableError(UnsupportedError):
    """A forward that cannot be taken down as a program: it does something outside the operations and views."""


class TokenizerError(AntiphonError):
    """A vocabulary that is inconsistent, or text that it cannot encode."""


class TemplateError(AntiphonError):
    """A chat template that does not compile, or that refused the messages it was given."""


class InvalidRequestError(AntiphonError):
    """A request with arguments that make no sense."""


class UsageError(InvalidRequestError):
    """A command line with a wrong option value, or options that exclude each other: exit code 2."""


class ContextLengthError(InvalidRequestError):
    """A request that can never fit the model's context or its memory."""


class TooManyTokensError(ContextLengthError):
    """A text with more tokens than its caller allows. Of a long text, a lower bound is counted."""

    def __init__(self, num_tokens: int, limit: int, is_exact: bool = False) -> None:
        self.num_tokens = num_tokens
        self.limit = limit
        #: For error messages: the count, or the limit if counting stopped beyond it.
        self.is_exact = is_exact
        self.counted = str(num_tokens) if is_exact else f"more than {limit}"
        super().__init__(f"the text has {self.counted} tokens; {limit} are allowed")


class OverloadedError(AntiphonError):
    """More work than the engine agreed to hold; the caller may try again later."""


class MemoryBudgetError(AntiphonError):
    """A model that can never fit the memory budget."""


class LoadTimeoutError(AntiphonError):
    """A model or adapter whose loading took longer than allowed, and was cancelled."""


class LoadCancelledError(AntiphonError):
    """A model or adapter whose loading was cancelled on request."""


class OutOfDeviceMemoryError(MemoryBudgetError):
    """A load or a step that needs more memory than its device has left."""


class MemoryBusyError(AntiphonError):
    """A model for which there is no room now: the others are in use or pinned. The caller may try again later."""


class ModelInUseError(AntiphonError):
    """A model that cannot be unloaded while requests use it."""


class EngineError(AntiphonError):
    """A request that failed inside the engine, with the cause."""


class DeviceError(EngineError):
    """A device that failed so that this process cannot use it any more: the engine stops with it."""


class AudioError(AntiphonError):
    """Sound that cannot be decoded or encoded, or that exceeds a limit."""


class MissingDependencyError(AntiphonError):
    """A package or program that this feature needs is not installed on this machine. Not the fault of a request."""


def check_values(*checks: tuple[bool, str, object, str]) -> None:
    """Reject the first value whose check does not hold. A check has that, the name, the value, and what it must be."""
    for holds, name, value, wanted in checks:
        if not holds:
            raise InvalidRequestError(f"{name} is {value!r}; it must be {wanted}")
