"""`BatchRecord`: the state of a batch, written to the disk at each change."""

from __future__ import annotations

import time
import uuid
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from antiphon.server.stored.files.record import FileId

BatchId = Annotated[str, Field(pattern=r"^batch_[0-9a-f]{32}$")]
Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
Endpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"]
#: Endpoint of Anthropic's message batches.
MESSAGES: Literal["/v1/messages"] = "/v1/messages"
ENDED = ("completed", "failed", "expired", "cancelled")
WINDOW_SECONDS = 24 * 3600
#: Fields of a record that the API does not show, or shows in another form.
HIDDEN = {"owner", "output_seconds", "ending", "counts", "num_expired", "usage", "errors"}


class BatchFault(BaseModel):
    """Reason why a batch was rejected; `line` counts from 1."""

    model_config = ConfigDict(extra="forbid")

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Counts(BaseModel):
    model_config = ConfigDict(extra="forbid")

    total: int = 0
    completed: int = 0
    failed: int = 0


class BatchRecord(BaseModel):
    """State of a batch. `owner` is the name of the API key that owns it; `ending` is the status after `finalizing`."""

    model_config = ConfigDict(extra="forbid")

    id: BatchId
    owner: str
    endpoint: Endpoint | Literal["/v1/messages"]
    input_file_id: FileId
    metadata: dict[str, str] | None = None
    output_seconds: int
    status: Status = "validating"
    ending: Literal["completed", "expired", "cancelled"] | None = None
    created_at: int
    expires_at: int
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    cancelling_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelled_at: int | None = None
    errors: list[BatchFault] = []
    model: str | None = None
    counts: Counts = Counts()
    #: Number of failed requests that were not run before the batch expired.
    num_expired: int = 0
    usage: dict[str, int] | None = None
    output_file_id: FileId | None = None
    error_file_id: FileId | None = None

    @classmethod
    def new(cls, **values: Any) -> BatchRecord:
        now = int(time.time())
        return cls(id=f"batch_{uuid.uuid4().hex}", created_at=now, expires_at=now + WINDOW_SECONDS, **values)

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    def enter(self, status: Status) -> None:
        """Change the status, and record the time."""
        self.status = status
        if status != "validating":
            setattr(self, f"{status}_at", int(time.time()))

    def body(self) -> dict[str, Any]:
        """Return the batch as the API shows it."""
        shown = self.model_dump(exclude=HIDDEN)
        is_written = self.has_ended
        if self.status == "finalizing" and self.ending == "cancelled":
            shown["status"] = "cancelling"
        errors = [fault.model_dump() for fault in self.errors]
        return {
            **shown,
            "object": "batch",
            "completion_window": "24h",
            "errors": {"object": "list", "data": errors} if errors else None,
            "output_file_id": self.output_file_id if is_written else None,
            "error_file_id": self.error_file_id if is_written else None,
            "request_counts": self.counts.model_dump(),
            "usage": _usage(self.usage),
        }


def _usage(tokens: dict[str, int] | None) -> dict[str, Any] | None:
    if tokens is None:
        return None
    given, written = tokens.get("input", 0), tokens.get("output", 0)
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": tokens.get("cached", 0)},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": tokens.get("reasoning", 0)},
        "total_tokens": given + written,
    }
